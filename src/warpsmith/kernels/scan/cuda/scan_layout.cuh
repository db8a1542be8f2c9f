//! Sizes, index arithmetic and operator of a scan. $rank, $axis, $reverse, $exclusive, $identity, $combine: what is
//! scanned, and how.
constexpr int RANK = $rank, AXIS = $axis, LAST = RANK - 1;
constexpr bool REVERSE = $reverse, EXCLUSIVE = $exclusive;
constexpr int64_t N = out0_shape[AXIS], WIDTH = out0_shape[LAST];
constexpr int64_t COUNT = EXCLUSIVE ? N - 1 : N;  // elements that are read
constexpr float IDENTITY = $identity;
// The first element of an independent scan; over columns `number` counts bundles of WIDTH of them.
__device__ __forceinline__ void place(int64_t number, int64_t (&at)[RANK], bool columns) {
#pragma unroll
  for (int d = LAST; d >= 0; d--) {
    at[d] = 0;
    if (d == AXIS || (columns && d == LAST)) continue;
    at[d] = number % out0_shape[d];
    number /= out0_shape[d];
  }
}
constexpr int64_t count(bool columns) {
  int64_t n = 1;
  for (int d = 0; d < RANK; d++) n *= d == AXIS || (columns && d == LAST) ? 1 : out0_shape[d];
  return n;
}
template <class T>
__device__ __forceinline__ T join(T a, T b) { return $combine; }
