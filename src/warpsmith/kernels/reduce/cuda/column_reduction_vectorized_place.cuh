//! Start of the column reduction with 16-byte loads: which columns a block has, and whose result a thread stores.
__shared__ unsigned room[GROUP * WORDS * PLACES];
[[maybe_unused]] const index_t row = blockIdx.x / (unsigned)ACROSS;
const int64_t base = (int64_t)(blockIdx.x % (unsigned)ACROSS) * OWN;
const bool inside = threadIdx.x < OWN && base + threadIdx.x < COLUMNS;
const int64_t col = inside ? base + threadIdx.x : COLUMNS - 1;  // whose result this thread stores
const int slot = threadIdx.x / BLOCK_COLUMNS;
