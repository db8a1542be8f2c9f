//! Output tile of a block in the TF32 implicit GEMM: TILE_PIXELS outputs, at most PIXELS_W across and PIXELS_D deep.
constexpr int TILE_W = PIXELS_W < TILE_PIXELS ? PIXELS_W : TILE_PIXELS, TILE_D = PIXELS_D < TILE_PIXELS / TILE_W ? PIXELS_D : TILE_PIXELS / TILE_W;
constexpr int TILE_H = TILE_PIXELS / TILE_W / TILE_D;
