//! Online softmax of a row of scores; the weighted sums so far are rescaled where its maximum grew.
ws::vf total = ws::load(totals + r * VEC);
const float before = soften(row, seen, $scale, tops[r], total);
ws::store(totals + r * VEC, total);
if (before != 1.0f && from > 0)
  for (int64_t d = 0; d < OUT_PAD; d += VEC)
    ws::store(sums + r * OUT_PAD + d, ws::load(sums + r * OUT_PAD + d) * before);
