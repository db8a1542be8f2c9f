//! Direct convolution that reduces over channels: all channels of an output lie in neighbouring threads of one warp.
static_assert(GROUPS == 1 && TOGETHER <= 32 && PLACED * TOGETHER == BLOCK, "requires: all channels of a place in one warp");
constexpr int64_t REDUCE = MADE;
