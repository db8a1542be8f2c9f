//! Fused epilogue of an implicit GEMM: pooling windows within a block's tile. $window_d, $window_h, $window_w: their
//! sizes.
// What follows the convolution takes a tile apart into places: windows of a pooling, or single results.
constexpr int WINDOW_D = $window_d, WINDOW_H = $window_h, WINDOW_W = $window_w;
constexpr int SIDE_W = TILE_W * INNER / WINDOW_W, SIDE_H = TILE_H / WINDOW_H, SIDE_D = TILE_D / WINDOW_D;
constexpr int PLACES = SIDE_W * SIDE_H * SIDE_D;
static_assert(
    TILE_W * INNER % WINDOW_W == 0 && TILE_H % WINDOW_H == 0 && TILE_D % WINDOW_D == 0,
    "requires: tiles of whole windows");
static_assert(
    (WINDOW_W == 1 || PHASES_W == INNER) && (WINDOW_H == 1 || PHASES_H == 1) && (WINDOW_D == 1 || PHASES_D == 1),
    "requires: windows within a block");
constexpr int64_t ENDS_D = OD / WINDOW_D, ENDS_H = OH / WINDOW_H, ENDS_W = OW / WINDOW_W;
constexpr int NEAR = ws::widest(WINDOW_W, 4);  // results of a window that are read at once
constexpr int64_t TILES = TILES_W * TILES_H * TILES_D * OUTER, ALL = OUTS * GROUPS;
