//! Tiles of a skinny GEMM: TILE rows of the large factor times F of the small one. Limit: fewer than 2^31 blocks.
constexpr int64_t TILES = ws::ceil_div(TALLEST, (int64_t)TILE), FEWS = FEW > 0 ? ws::ceil_div(FEW, (int64_t)F) : 1;
constexpr int64_t BLOCKS = FEW > 0 ? BATCH * FEWS * TILES : 0;
static_assert(BLOCKS * PARTS < 0x7fffffff, "requires: fewer than 2^31 blocks");
