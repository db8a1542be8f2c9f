//! Column reduction that keeps its columns in registers to write them again: packs and rows of a thread, and the grid.
//! $pack: columns of a pack; $most: elements that a thread may keep; $words: of a column's state.
constexpr int V = $pack, SIZE = BLOCK_COLUMNS * GROUP;  // columns of a pack, threads of a block
constexpr int ITEMS = REDUCE > GROUP ? (int)ws::ceil_div(REDUCE, (int64_t)GROUP) : 1;  // rows of a thread
static_assert(ITEMS * V <= $most, "requires: rows that fit registers");
constexpr int PLACES = BLOCK_COLUMNS * V, WORDS = $words;
constexpr int64_t ACROSS = ws::ceil_div(COLUMNS, (int64_t)PLACES);
constexpr int64_t BUNDLES = ROWS * ACROSS;
using index_t = ws::Int<ROWS>;
