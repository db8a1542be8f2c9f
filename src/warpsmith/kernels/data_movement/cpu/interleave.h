//! Interleaves N short streams into one; two streams by register shuffles.
// to[i * N + k] = from[k * stride + i]: N short streams become one.
template <int64_t N> WS_FN void interleave(float* __restrict to, const float* __restrict from, int64_t stride, int64_t n) {
#ifdef WS_GCC
  if constexpr (N == 2) {
    const ws::vi half = ws::iota() / 2, odd = (ws::iota() & 1) * VEC;
    for (int64_t i = 0; i < n; i += VEC) {  // both buffers are padded to whole vectors
      const ws::vf a = ws::load(from + i), b = ws::load(from + stride + i);
      ws::store(to + 2 * i, __builtin_shuffle(a, b, half + odd));
      ws::store(to + 2 * i + VEC, __builtin_shuffle(a, b, half + odd + VEC / 2));
    }
    return;
  }
#endif
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < N; ++k) to[i * N + k] = from[k * stride + i];
}
