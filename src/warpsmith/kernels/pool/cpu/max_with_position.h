//! Max pooling with positions, one tap row: vectors of windows, best value and its position kept in scratch between tap rows.
const int row_at = (int)($row * Width::I);
vectors(0, length, [&](int64_t j, int n, int) __attribute__((always_inline)) {
  const ws::vi left = ws::iota() * (int)Width::S + (int)(low + j * Width::S);
  ws::vi inside = left;  // the first tap that exists
  for (int64_t k = 1; k < Width::K; ++k) inside = inside < 0 ? inside + (int)Width::D : inside;
  ws::vf best = first ? ws::splat(EMPTY) : ws::load(made + j);
  ws::vi spot = first ? inside + row_at : ws::load(found + j);
  for (int64_t k = 0; k < Width::K; ++k) {
    const ws::vf v = strided<Width::S>(line + (j * Width::S + k * Width::D), n);
    const ws::vm better = (v > best) | (v != v);
    best = ws::select(better, v, best);
    spot = ws::select(better, left + (int)(row_at + k * Width::D), spot);
  }
  ws::store(made + j, best);
  ws::store(found + j, spot);
});
