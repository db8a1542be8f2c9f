//! Output tile of a block in the fp16 wgmma implicit GEMM: 64 rows of a wgmma are 8 x 8 outputs or 64 of a row.
// Outputs of a block: 64 of a warpgroup's product are 8 x 8 of them, or 64 of a row.
constexpr int TILE_D = PIXELS_D < TILE_PIXELS / 64 ? PIXELS_D : TILE_PIXELS / 64, AREA = TILE_PIXELS / TILE_D;
constexpr int WIDEST = PIXELS_W < AREA ? PIXELS_W : AREA, TILE_W = WIDEST >= 64 || AREA / WIDEST >= 8 ? WIDEST : AREA / 8;
constexpr int TILE_H = AREA / TILE_W;
