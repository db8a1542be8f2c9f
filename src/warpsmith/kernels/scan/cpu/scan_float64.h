//! Prefix scan of a run in place: eight elements at a time in float64 registers in three shifted steps; the carry stays in float64.
// Eight elements in place; returns what is carried to the next eight.
WS_FN d8 scan8(float* p, d8 carry) {
  d8 v = load8(p);
  v = combine(shifted<1>(v), v);
  v = combine(shifted<2>(v), v);
  v = combine(shifted<4>(v), v);
  store8(p, combine(carry, EXCLUSIVE ? shifted<1>(v) : v));
  return combine(carry, picked(v, l8{} + (REVERSE ? 0 : 7)));
}
// `size` elements in place, of which `have` were read; `run` has room for whole eights.
static inline __attribute__((always_inline)) d8 scan_run(float* run, int64_t have, int64_t size, d8 carry) {
  const int64_t eights = (size + 7) / 8;
  for (int64_t j = have < 0 ? 0 : have; j < eights * 8; ++j) run[j] = (float)IDENTITY;
  for (int64_t e = 0; e < eights; ++e) carry = scan8(run + (REVERSE ? eights - 1 - e : e) * 8, carry);
  return carry;
}
