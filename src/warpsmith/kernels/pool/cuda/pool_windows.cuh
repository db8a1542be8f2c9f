//! Operator of a pooling: maximum (NaN wins) or average, which taps a window has and how many count.
constexpr float START = MAXIMUM ? -ws::infinity : 0.0f;
__device__ __forceinline__ float combine(float a, float b) { return MAXIMUM ? ws::max_nan(b, a) : a + b; }
// Is the element at this distance from a window's first one of the window?
__host__ __device__ constexpr bool has(int distance, int kernel, int dilation) {
  return distance >= 0 && distance <= (kernel - 1) * dilation && distance % dilation == 0;
}
__device__ __forceinline__ int clamped(int i, int least, int most) { return i < least ? least : i > most ? most : i; }
// Elements of a window that an average counts along one dimension.
__device__ __forceinline__ float counted(int64_t o, int64_t size, int kernel, int stride, int padding) {
  const int64_t first = o * stride - padding, end = first + kernel;
  const int64_t least = PADDED ? first : first > 0 ? first : 0, most = PADDED ? size + padding : size;
  return (float)((end < most ? end : most) - least);
}
constexpr bool within(int64_t made, int64_t size, int kernel, int stride, int padding) {
  return (made - 1) * stride - padding + kernel <= size + padding;
}
// Do all windows count the same?
constexpr bool ALIKE = PADDED && within(OD, ID, KD, SD, PD) && within(OH, IH, KH, SH, PH) && within(OW, IW, KW, SW, PW);
constexpr float COUNT = DIVISOR != 0 ? (float)DIVISOR : ALIKE ? (float)KD * KH * KW : 0.0f;  // 0: each its own
