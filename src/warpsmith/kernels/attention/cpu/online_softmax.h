//! Online softmax of one row of scores (Milakov and Gimelshein 2018; Dao et al. 2022): running maximum and sum in float32,
//! weights written over the scores, the correction of earlier sums returned.
// `seen` scores of one row, times a scale, become weights exp(s - top); top and total take them in, and what was summed
// before is to be multiplied by the result. A row that has only seen -inf keeps weights of 0. The top is of scores as they
// are, with the scale's sign: subtracted from scaled ones, in a fused multiply-add, it would be off by its own rounding.
WS_FN float soften(float* s, int64_t seen, float scale, float& top, ws::vf& total) {
  ws::vf most = ws::splat(-ws::infinity);
  const int64_t whole = seen / VEC * VEC;
  const int rest = (int)(seen - whole);
  const ws::vm beyond = ws::iota() >= rest;
  const float sign = scale < 0.0f ? -1.0f : 1.0f, size = sign * scale;
  for (int64_t j = 0; j < whole; j += VEC) most = ws::max(ws::load(s + j) * sign, most);
  if (rest) most = ws::max(ws::select(beyond, ws::splat(-ws::infinity), ws::load(s + whole) * sign), most);
  const float next = ws::max(ws::hmax(most), top);
  const float base = next == -ws::infinity ? 0.0f : next;
  const float before = top == -ws::infinity ? 0.0f : ws::exp_nonpos((top - base) * size);
  ws::vf sum{};
  for (int64_t j = 0; j < whole; j += VEC) {
    const ws::vf weight = ws::exp_nonpos((ws::load(s + j) * sign - base) * size);
    ws::store(s + j, weight);
    sum += weight;
  }
  if (rest) {
    const ws::vf weight = ws::select(beyond, ws::vf{}, ws::exp_nonpos((ws::load(s + whole) * sign - base) * size));
    ws::store(s + whole, weight);
    sum += weight;
  }
  top = next;
  total = total * before + sum;
  return before;
}
