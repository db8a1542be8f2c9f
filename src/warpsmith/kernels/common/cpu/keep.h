//! Masks the lanes past the end of the data out of an accumulation.
// Past the end of the data (lanes n and up) an accumulator keeps what it had.
WS_FN ws::vf keep(int n, ws::vf now, ws::vf before) {
  return n == VEC ? now : ws::select(ws::iota() < n, now, before);
}
