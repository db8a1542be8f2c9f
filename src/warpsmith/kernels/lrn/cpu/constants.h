//! Sizes of the local response normalisation: the window of channels, and how many lines are handled at once.
constexpr int64_t SIZE = $size, AHEAD = $ahead;  // channels of a window, and how many of them come after its own
constexpr int64_t SAMPLES = out0_shape[0], CHANNELS = out0_shape[1], WIDTH = out0_shape[$last];
constexpr int64_t LINES = $lines;
constexpr int64_t PITCH = (WIDTH + VEC - 1) / VEC * VEC;
constexpr int64_t GROUP = PITCH == 0 || TILE < 2 * PITCH ? 1 : TILE / PITCH;  // lines at once
constexpr int64_t GROUPS = (LINES + GROUP - 1) / GROUP;
constexpr int64_t ROOM = GROUP * PITCH;
