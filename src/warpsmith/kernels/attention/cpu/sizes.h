//! Sizes of the attention kernel and its scratch per thread, as macros: the workspace is computed from them before task.h is read.
#define HEADS ($heads)
#define QUERY_COUNT ($queries)
#define KEY_COUNT ($keys)
#define WIDTH ($width)      // features of queries and keys
#define OUT_WIDTH ($out)  // features of values
#ifdef __AVX512F__
#define TILE 4
#else
#define TILE 2
#endif
#define PANEL (TILE * VEC)
#define SIZE(n) ((n) > 0 ? (n) : 1)  // to divide by
#define UP(n, m) (((n) + (m) - 1) / (m) * (m))
#define COPIED (sizeof($value_t) != 4 || $value_stride[$last] != 1 || $value_stride[$row] != OUT_WIDTH || OUT_WIDTH % VEC != 0)
// Floats of scratch for one thread: keys, values, queries, scores, weighted sums, maxima, totals.
#define KEY_FLOATS (UP(KEY_COUNT, PANEL) * WIDTH)
#define VALUE_FLOATS (COPIED ? KEY_COUNT * UP(OUT_WIDTH, VEC) : 0)
#define QUERY_FLOATS (QUERIES * UP(WIDTH, VEC))
#define SUM_FLOATS (QUERIES * UP(OUT_WIDTH, VEC))
#define SCRATCH (UP(KEY_FLOATS + VALUE_FLOATS + QUERY_FLOATS + QUERIES * KEYS + SUM_FLOATS + QUERIES * (VEC + 1), 16) + 64)
