//! Grid of output tiles of an implicit GEMM and the halo patch of the input that a tile reads. Wants TILE_D, TILE_H and
//! TILE_W.
constexpr int64_t TILES_D = ws::ceil_div(AXIS_D.places(OD), (int64_t)TILE_D);
constexpr int64_t TILES_H = ws::ceil_div(AXIS_H.places(OH), (int64_t)TILE_H);
constexpr int64_t TILES_W = ws::ceil_div(AXIS_W.places(OW), (int64_t)TILE_W);
constexpr int64_t BLOCKS = BLOCKS_OUT * OUTER * TILES_W * TILES_H * TILES_D * GROUPS * IMAGES;
static_assert(BLOCKS < 0x7fffffff, "requires: less than 2^31 blocks");
constexpr int V = PHASES_W == INNER ? ws::widest(OW, 4) : 1, STAGED = rounded(TILE_PIXELS * INNER, 16) + 4;

// The patch of the input that a tile reads. Columns of one remainder modulo the pace lie side by side.
constexpr int SPAN_D = AXIS_D.span(TILE_D), SPAN_H = AXIS_H.span(TILE_H);
constexpr int HALF = ws::ceil_div(AXIS_W.span(TILE_W), PACE_W), ROW = HALF * PACE_W, PLANE = SPAN_D * SPAN_H * ROW;
