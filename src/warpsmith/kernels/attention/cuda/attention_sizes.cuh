//! Sizes of a round of heads, and of its scores in the workspace. Values: shapes and strides as C++.
typedef float scores_t, norms_t;
static constexpr __constant__ int64_t scores_shape[] = {$shape};
static constexpr __constant__ int64_t scores_stride[] = {$strides};
constexpr int64_t WIDTH = $width;
constexpr int DIMS = $dims;
constexpr int64_t ALL = $heads, ROUND = together($out_shape, DIMS, HEADS), ROWS = ROUND * $rows;
constexpr int64_t SCORES_ROOM = (ROWS * $keys + 31) / 32 * 32, ROOM = 4 * (SCORES_ROOM + (2 * ROWS + 31) / 32 * 32);
