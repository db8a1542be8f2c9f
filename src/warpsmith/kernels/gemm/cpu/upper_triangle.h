//! Tile order of a GEMM masked to its upper triangle: tiles below the diagonal are skipped, full and empty rows alternate so that threads get as many of each.
constexpr int64_t DIAGONAL = $diagonal;
// Rows first … last with columns from … to lie wholly below the diagonal.
WS_FN bool outside(int64_t first, int64_t, int64_t, int64_t to) { return to < first + DIAGONAL; }
WS_FN int64_t turn(int64_t t) { return t & 1 ? ROW_TILES - 1 - t / 2 : t / 2; }
