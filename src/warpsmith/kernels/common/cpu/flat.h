//! Tests of strides at compile time: whether dimensions can be walked as one, and with which stride.
// Stride of dimensions [first, last] walked as one; and whether they can be.
constexpr int64_t pace(const int64_t* shape, const int64_t* stride, int first, int last) {
  for (int d = last; d >= first; --d)
    if (shape[d] != 1) return stride[d];
  return 0;
}
constexpr bool flat(const int64_t* shape, const int64_t* stride, int first, int last) {
  int64_t next = -1;
  for (int d = last; d >= first; --d) {
    if (shape[d] == 1) continue;
    if (next >= 0 && stride[d] != next) return false;
    next = stride[d] * shape[d];
  }
  return true;
}
