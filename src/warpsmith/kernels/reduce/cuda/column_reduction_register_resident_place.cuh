//! Start of the register-resident column reduction: which columns a thread has; one beyond the last takes the last pack
//! once more.
__shared__ unsigned room[GROUP * WORDS * PLACES];
const int lane = threadIdx.x % BLOCK_COLUMNS, slot = threadIdx.x / BLOCK_COLUMNS;
[[maybe_unused]] const index_t row = blockIdx.x / (unsigned)ACROSS;
const int64_t first = (int64_t)(blockIdx.x % (unsigned)ACROSS) * PLACES + lane * V;
const bool inside = first < COLUMNS;
const int64_t begin = inside ? first : COLUMNS - V, col = begin;
