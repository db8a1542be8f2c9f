//! Where the matrix of a batch begins in a table, as an index says; from the end where it is negative, the first where it is outside.
__device__ __forceinline__ int64_t table_start(const Operands& o, int64_t b) {
  [[maybe_unused]] int64_t at[RANK];
  place(b, 0, at);
  int64_t row = o.$rows[$index];
  row = row < 0 ? row + $count : row;
  return (row < 0 || row >= $count ? 0 : row) * $stride;
}
