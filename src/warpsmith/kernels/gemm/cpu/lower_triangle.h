//! Tile order of a GEMM masked to its lower triangle: tiles above the diagonal are skipped, full and empty rows alternate so that threads get as many of each.
constexpr int64_t DIAGONAL = $diagonal;
// Rows first … last with columns from … to lie wholly above the diagonal.
WS_FN bool outside(int64_t, int64_t last, int64_t from, int64_t) { return from > last + DIAGONAL; }
WS_FN int64_t turn(int64_t t) { return t & 1 ? ROW_TILES - 1 - t / 2 : t / 2; }
