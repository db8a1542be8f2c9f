//! Column reduction with 16-byte loads wherever rows begin: columns of a block, occupancy and grid, evaluated by the
//! compiler. $type, $column_stride, $row_stride: of the operand; $aligned: do all rows begin with a pack; $words: of a
//! column's state.
constexpr int C = 16 / sizeof($type), SIZE = BLOCK_COLUMNS * GROUP;  // columns of a pack, threads of a block
static_assert($column_stride == 1 || COLUMNS == 1, "requires: columns side by side");
static_assert(REDUCE < 0x7fffffff, "requires: reductions of less than 2^31 elements");
constexpr bool ALIKE = $aligned;  // do all rows begin with a pack?
static_assert(GROUP * $row_stride % C == 0, "requires: rows of a thread that begin alike");
constexpr int OWN = ALIKE ? BLOCK_COLUMNS * C : BLOCK_COLUMNS * C - (C - 1);  // columns of a block
constexpr int PLACES = BLOCK_COLUMNS * C + C - 1, WORDS = $words;
// Blocks of a multiprocessor: as many as it has room for, where what a thread keeps is little.
constexpr int RESIDENT = (WORDS * C <= 8 ? 2048 : 1024) / SIZE;
constexpr int64_t ACROSS = ws::ceil_div(COLUMNS, (int64_t)OWN);
constexpr int64_t BUNDLES = ROWS * ACROSS;
using index_t = ws::Int<ROWS>;
