//! Gathers one element for each of n lanes, at an index that differs from lane to lane; NaN where it is out of range.
// One element for each of n lanes, at an index of its own.
template <int64_t STEP, int64_t STRIDE, class T>
WS_FN ws::vf pick(const T* p, ws::vl at, int64_t extent, int64_t j, int n) {
  ws::vf v{};
  for (int i = 0; i < n; ++i) {
    const bool inside = at[i] >= 0 && at[i] < extent;
    v[i] = inside ? ws::load_one(p + at[i] * STEP + (j + i) * STRIDE) : ws::nan;
  }
  return v;
}
