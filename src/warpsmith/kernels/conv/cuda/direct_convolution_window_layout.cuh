//! Direct convolution with a fused epilogue: pooling windows within a thread's register tile. $window_d, $window_h,
//! $window_w: sizes.
// What follows takes a thread's part apart into windows of a pooling, or single results.
constexpr int WINDOW_D = $window_d, WINDOW_H = $window_h, WINDOW_W = $window_w;
static_assert(ROWS % WINDOW_H == 0 && COLS % WINDOW_W == 0, "requires: parts of whole windows");
constexpr int PART_H = ROWS / WINDOW_H, PART_W = COLS / WINDOW_W;
constexpr int64_t ENDS_D = OD / WINDOW_D, ENDS_H = OH / WINDOW_H, ENDS_W = OW / WINDOW_W;
constexpr int PLACED = BLOCK / TOGETHER;  // parts of a block that lie at different places
constexpr int64_t EACH = ENDS_D * STRIPS * ACROSS, TILES = ws::ceil_div(EACH, (int64_t)PLACED);  // parts and blocks of an image
constexpr int64_t ALL = GROUPS * MADE;
static_assert(EACH < 0x7ffffff0, "requires: images of less than 2^31 parts");
