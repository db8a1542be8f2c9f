//! A divisor that is never zero, for index arithmetic of empty tensors.
constexpr int64_t nonzero(int64_t n) { return n ? n : 1; }  // a divisor; loops over nothing do not get there
