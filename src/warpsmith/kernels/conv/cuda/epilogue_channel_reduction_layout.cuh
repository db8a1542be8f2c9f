//! Fused epilogue of an implicit GEMM that reduces over channels: threads per place. Limit: all channels of a place in
//! one block.
// Each place's channels are reduced by ABOVE threads above each other.
static_assert(GROUPS == 1 && BLOCKS_OUT == 1, "requires: all channels of a place in one block");
constexpr int most_of(int n) { return n < 2 ? 1 : 2 * most_of(n / 2); }
constexpr int ABREAST = ws::widest(THREADS, most_of(PLACES)), ABOVE = THREADS / ABREAST;
constexpr int64_t REDUCE = OUTS;
