//! Clamps an index to a range.
WS_FN int64_t within(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }
