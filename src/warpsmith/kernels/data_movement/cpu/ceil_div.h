//! Integer division that rounds up.
WS_FN int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0); }
