//! Cut of the queries into blocks of equal size, each of whole register tiles of rows.
[[maybe_unused]] constexpr bool NT = false;
// Blocks of equal size, each of whole tiles of rows.
constexpr int64_t PARTS = QUERY_COUNT > 0 ? (QUERY_COUNT + QUERIES - 1) / QUERIES : 1;
constexpr int64_t EACH = QUERY_COUNT > 0 ? UP((QUERY_COUNT + PARTS - 1) / PARTS, ROWS) : 1;
constexpr int64_t BLOCKS = (QUERY_COUNT + EACH - 1) / EACH;
constexpr int64_t OUT_PAD = UP(OUT_WIDTH, VEC), WIDTH_PAD = UP(WIDTH, VEC);
