//! Prefix scan of a run in place: VEC elements at a time in float32 registers in log2(VEC) shifted steps; the carry is folded
//! into float64 every eight vectors.
WS_FN ws::vf join(ws::vf a, ws::vf b) { return $combine; }
WS_FN ws::vf chosen(ws::vf v, ws::vi from) {
#ifdef WS_GCC
  return __builtin_shuffle(v, ws::splat((float)IDENTITY), from);
#else
  ws::vf r;
  for (int i = 0; i < VEC; ++i) r[i] = from[i] < VEC ? v[from[i]] : (float)IDENTITY;
  return r;
#endif
}
template <int K> WS_FN ws::vf moved(ws::vf v) {
  return chosen(v, (REVERSE ? ws::iota() + K : ws::iota() - K) & (2 * VEC - 1));
}
// `size` elements in place, of which `have` were read; `run` has room for whole vectors. What eight vectors add up
// to is carried on in double.
static inline __attribute__((always_inline)) d8 scan_run(float* run, int64_t have, int64_t size, d8 carry) {
  const int64_t vectors = (size + VEC - 1) / VEC;
  for (int64_t j = have < 0 ? 0 : have; j < vectors * VEC; ++j) run[j] = (float)IDENTITY;
  for (int64_t first = 0; first < vectors; first += 8) {
    ws::vf near = ws::splat((float)carry[0]), sum = ws::splat((float)IDENTITY);
    for (int64_t k = first; k < first + 8 && k < vectors; ++k) {
      float* const p = run + (REVERSE ? vectors - 1 - k : k) * VEC;
      ws::vf v = ws::load(p);
      v = join(moved<1>(v), v);
      v = join(moved<2>(v), v);
      if (VEC > 4) v = join(moved<4>(v), v);
      if (VEC > 8) v = join(moved<8>(v), v);
      const ws::vf all = chosen(v, ws::splat_int(REVERSE ? 0 : VEC - 1));
      ws::store(p, join(near, EXCLUSIVE ? moved<1>(v) : v));
      near = join(near, all);
      sum = join(sum, all);
    }
    carry = combine(carry, splat8(sum[0]));
  }
  return carry;
}
