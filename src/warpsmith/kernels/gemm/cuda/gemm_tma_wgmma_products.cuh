//! The wgmma instructions of a unit: m64nNk16 for the widths N that its tiles may have, both factors from shared memory, fp32
//! accumulators. $products: one branch for each width.

namespace ws::sm90 {

// d += left right, or d = left right where `accumulate` is 0; `left` and `right` are descriptors of 64 x 16 and 16 x N
// elements of T. Of thread t of warp w, d[4 j + i] is row 16 w + t / 4 + i / 2 * 8, column 8 j + t % 4 * 2 + i % 2.
template <class T, int N, int LEFT_MN_MAJOR, int RIGHT_MN_MAJOR>
__device__ __forceinline__ void wgmma(float (&d)[N / 2], uint64_t left, uint64_t right, int accumulate) {
  $products
}

}  // namespace ws::sm90
