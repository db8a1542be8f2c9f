//! Rounds of heads of an attention: how many heads go together, and where one begins; bounds the workspace.

// Heads of a round: whole dimensions from the last one on, then an even share of the next; at most `most`.
constexpr int64_t together(const int64_t* shape, int dims, int64_t most) {
  int64_t heads = 1;
  for (int d = dims - 1; d >= 0; heads *= shape[d--]) {
    if (heads * shape[d] <= most) continue;
    for (int64_t n = most / heads; n > 1; n--)
      if (shape[d] % n == 0) return heads * n;
    break;
  }
  return heads;
}
// Where a head begins.
constexpr int64_t begin(const int64_t* shape, const int64_t* stride, int dims, int64_t head) {
  int64_t found = 0;
  for (int d = dims - 1; d >= 0; head /= shape[d--]) found += head % shape[d] * stride[d];
  return found;
}
