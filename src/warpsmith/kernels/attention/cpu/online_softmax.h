//! Online softmax of one row of scores (Milakov and Gimelshein 2018; Dao et al. 2022): running maximum and sum in float32,
//! weights written over the scores, the correction of earlier sums returned.
// `seen` scores of one row, times a scale, become weights exp(s - top); top and total take them in, and what was summed
// before is to be multiplied by the result. A row that has only seen -inf keeps weights of 0.
WS_FN float soften(float* s, int64_t seen, float scale, float& top, ws::vf& total) {
  ws::vf most = ws::splat(-ws::infinity);
  const int64_t whole = seen / VEC * VEC;
  const int rest = (int)(seen - whole);
  const ws::vm beyond = ws::iota() >= rest;
  for (int64_t j = 0; j < whole; j += VEC) most = ws::max(ws::load(s + j) * scale, most);
  if (rest) most = ws::max(ws::select(beyond, ws::splat(-ws::infinity), ws::load(s + whole) * scale), most);
  const float next = ws::max(ws::hmax(most), top);
  const float base = next == -ws::infinity ? 0.0f : next;
  const float before = ws::exp_nonpos(top - base);
  ws::vf sum{};
  for (int64_t j = 0; j < whole; j += VEC) {
    const ws::vf weight = ws::exp_nonpos(ws::load(s + j) * scale - base);
    ws::store(s + j, weight);
    sum += weight;
  }
  if (rest) {
    const ws::vf weight = ws::select(beyond, ws::vf{}, ws::exp_nonpos(ws::load(s + whole) * scale - base));
    ws::store(s + whole, weight);
    sum += weight;
  }
  top = next;
  total = total * before + sum;
  return before;
}
