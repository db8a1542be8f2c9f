//! Sizes of a scan, the index of an independent one, and vectors of eight float64 with the combination and its shifts: a
//! step of the in-register prefix scan (Hillis and Steele 1986).
constexpr int RANK = $rank, AXIS = $axis, LAST = RANK - 1;
constexpr bool REVERSE = $reverse, EXCLUSIVE = $exclusive, LANES = $lanes;
constexpr int64_t N = out0_shape[AXIS], WIDTH = out0_shape[LAST];
constexpr int64_t COUNT = EXCLUSIVE ? N - 1 : N;  // elements that are read
constexpr double IDENTITY = $identity;
constexpr int64_t outer() {  // independent scans; over columns: bundles of WIDTH of them
  int64_t n = 1;
  for (int d = 0; d < RANK; ++d) n *= d == AXIS || (LANES && d == LAST) ? 1 : out0_shape[d];
  return n;
}
constexpr int64_t OUTER = outer();
// The first element of an independent scan.
static inline void place(int64_t number, int64_t* at) {
  for (int d = LAST; d >= 0; --d) {
    at[d] = 0;
    if (d == AXIS || (LANES && d == LAST)) continue;
    at[d] = number % out0_shape[d];
    number /= out0_shape[d];
  }
}

typedef double d8 __attribute__((vector_size(64)));
typedef int64_t l8 __attribute__((vector_size(64)));
typedef float f8 __attribute__((vector_size(32)));
typedef f8 f8_mem __attribute__((aligned(4), may_alias));
typedef d8 d8_mem __attribute__((aligned(8), may_alias));
WS_FN d8 load8(const float* p) { return __builtin_convertvector(*(const f8_mem*)p, d8); }
WS_FN void store8(float* p, d8 v) { *(f8_mem*)p = __builtin_convertvector(v, f8); }
WS_FN d8 splat8(double x) { return x - d8{}; }
WS_FN d8 combine(d8 a, d8 b) { return $combine; }
// Lane i becomes `from[i]` of v and, from 8 on, the identity.
WS_FN d8 picked(d8 v, l8 from) {
#ifdef WS_GCC
  return __builtin_shuffle(v, splat8(IDENTITY), from);
#else
  d8 r;
  for (int i = 0; i < 8; ++i) r[i] = from[i] < 8 ? v[from[i]] : IDENTITY;
  return r;
#endif
}
template <int K> WS_FN d8 shifted(d8 v) {
  const l8 lane = {0, 1, 2, 3, 4, 5, 6, 7};
  return picked(v, (REVERSE ? lane + K : lane - K) & 15);
}
