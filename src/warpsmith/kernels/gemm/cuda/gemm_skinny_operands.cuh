//! Factors of a skinny GEMM, the large one and the small one, whichever side they are on: strides, vector widths, rows,
//! and where a sum goes (the epilogue, or its part of a split K).

constexpr int64_t TALLEST = $rows, FEW = $few;
constexpr int64_t BIG_K = $big_stride, SMALL_K = $small_stride;
constexpr int V = $width, SMALL_VEC = $small_width, F = (int)(FEW < $most ? (FEW > 0 ? FEW : 1) : $most);
using big_t = $big_type;
using small_t = $small_type;
// Where row r of either factor begins.
__device__ __forceinline__ const big_t* big_row(const Operands& o, int64_t b, int64_t r) { return o.$big + $big_row; }
__device__ __forceinline__ const small_t* small_row(const Operands& o, int64_t b, int64_t r) { return o.$small + $small_row; }
// The sum of row y of the big factor and row x of the small one, to the outputs or to its part's.
__device__ __forceinline__ void store_sum(const Operands& o, int64_t b, int64_t y, int64_t x, float sum, float* partial) {
  if (y >= TALLEST || x >= FEW) return;
  if constexpr (PARTS == 1) finish<1>(o, b, $place, ws::Pack<float, 1>{{sum}});
  else partial[$partial_place] = sum;
}
