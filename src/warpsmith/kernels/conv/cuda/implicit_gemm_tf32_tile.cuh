//! Output tile of a block in the TF32 implicit GEMM: PIXELS outputs, at most WIDE across and DEEP deep.
constexpr int TILE_W = WIDE < PIXELS ? WIDE : PIXELS, TILE_D = DEEP < PIXELS / TILE_W ? DEEP : PIXELS / TILE_W;
constexpr int TILE_H = PIXELS / TILE_W / TILE_D;
