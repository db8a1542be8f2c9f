//! Sizes of a small-M GEMM by mma.sync: tokens, tiles of weight rows, steps of K, and its split of K. Values: types, sizes and strides as C++.
typedef $left_type left_t;
constexpr int RANK = $rank;
constexpr int64_t BATCH = 1, M = $rows, N = $columns, K = $depth;
constexpr int64_t LEFT_K = $left_k;
constexpr int LEFT_V = LEFT_K == 1 ? ws::widest(K | $left_rows, 8) : 1;  // neighbours of a token that one load takes
constexpr int OUT_VEC = ws::widest(N, 4);
constexpr int WARPS = BLOCK / 32, STEP = 4 * VEC, BK = STEP * WARPS;  // four lanes share a row's step; a step of the block is one of each warp
constexpr int TOKEN_TILES = M > 24 ? 4 : M > 16 ? 3 : M > 8 ? 2 : 1;  // of 8 tokens, in a block
constexpr int64_t TOKEN_BLOCKS = M > 0 ? ws::ceil_div(M, (int64_t)(8 * TOKEN_TILES)) : 0;
constexpr int WEIGHTS = $weights;                         // that the left factor is multiplied with, row by row
constexpr int ROWS = 16 * MMA_TILES_M / WEIGHTS;  // of each weight, in a tile
constexpr int64_t ROW_BLOCKS = ws::ceil_div(N, (int64_t)ROWS);
constexpr int64_t SLICES = K > 0 ? ws::ceil_div(K, (int64_t)BK) : 1;
constexpr int PARTS = (int)(SLICES < SPLIT ? SLICES : SPLIT);
constexpr int64_t SHARE = ws::ceil_div(SLICES, (int64_t)PARTS);     // slices of a part
constexpr int64_t GROUPS = PARTS * TOKEN_BLOCKS;                    // of blocks, which take the rows of one part and its tokens in turn
constexpr int64_t BLOCKS_EACH = GRID > GROUPS && GROUPS > 0 ? GRID / GROUPS : 1, BLOCKS = GROUPS * (ROW_BLOCKS < BLOCKS_EACH ? ROW_BLOCKS : BLOCKS_EACH);
static_assert(ROW_BLOCKS < 1 << 30 && BLOCKS < 1 << 30, "requires: fewer than 2^30 tiles");
