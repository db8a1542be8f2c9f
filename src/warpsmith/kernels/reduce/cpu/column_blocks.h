//! Cut of a reduction over an outer dimension into tasks: blocks of BLOCK vectors of columns, whole columns each.
constexpr int64_t blocks = (COLUMNS + BLOCK * VEC - 1) / (BLOCK * VEC);
constexpr int64_t across = blocks > 0 ? blocks : 1;
constexpr int64_t block_size = REDUCE * BLOCK * VEC;
constexpr int64_t grain = block_size >= GRAIN ? 1 : GRAIN / (block_size > 0 ? block_size : 1);
