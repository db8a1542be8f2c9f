//! Sizes, strides and vector widths of a GEMM of any shapes, strides and batches, evaluated by the compiler, and its
//! split of K. A factor lies ALONG the sum, ACROSS it (neighbours at neighbouring addresses) or neither. Values: types,
//! sizes and strides as C++.
typedef $left_type left_t;
typedef $right_type right_t;
constexpr int RANK = $rank;
constexpr int64_t BATCH = $batch, M = $rows, N = $columns, K = $depth;
constexpr int64_t LEFT_K = $left_k, LEFT_M = $left_m;
constexpr int64_t RIGHT_K = $right_k, RIGHT_N = $right_n;
constexpr bool LEFT_EVEN = $left_even;  // are all rows equally far apart?
constexpr bool LEFT_ALONG = LEFT_K == 1, LEFT_ACROSS = !LEFT_ALONG && LEFT_EVEN && LEFT_M == 1;
constexpr bool RIGHT_ALONG = RIGHT_K == 1, RIGHT_ACROSS = !RIGHT_ALONG && RIGHT_N == 1;
constexpr int64_t LEFT_BATCH = $left_batch, RIGHT_BATCH = $right_batch;  // bits of all strides
constexpr int OF_LEFT = 16 / sizeof(left_t), OF_RIGHT = 16 / sizeof(right_t);
constexpr int LEFT_VEC = LEFT_ALONG ? ws::widest(K | LEFT_BATCH | $left_rows, OF_LEFT)
                       : LEFT_ACROSS ? ws::widest(M | LEFT_BATCH | LEFT_K, OF_LEFT) : 1;
constexpr int RIGHT_VEC = RIGHT_ALONG ? ws::widest(K | RIGHT_BATCH | RIGHT_N, OF_RIGHT)
                        : RIGHT_ACROSS ? ws::widest(N | RIGHT_BATCH | RIGHT_K, OF_RIGHT) : 1;
constexpr int OUT_VEC = ws::widest(N, 4);
constexpr int64_t SLICES = K > 0 ? ws::ceil_div(K, (int64_t)BK) : 1;
constexpr int PARTS = (int)(SLICES < SPLIT ? SLICES : SPLIT);
constexpr int64_t SHARE = ws::ceil_div(SLICES, (int64_t)PARTS);  // slices of a part
