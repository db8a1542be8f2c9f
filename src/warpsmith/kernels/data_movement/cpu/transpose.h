//! Transposes a tile into contiguous scratch, VEC by VEC in registers in log2(VEC) shuffle steps.
// to[c][r] = from[r][c] for rows r < rows and columns c < columns: VEC by VEC at a time, in registers.
#ifdef WS_GCC
template <int S> WS_FN void swap_blocks(ws::vf* r) {  // exchanges the blocks of size S off the diagonal
  const ws::vi lane = ws::iota(), low = ws::select((lane & S) == 0, lane, lane + (VEC - S));
#pragma GCC unroll 16
  for (int i = 0; i < VEC; ++i)
    if (!(i & S)) {
      const ws::vf a = r[i], b = r[i + S];
      r[i] = __builtin_shuffle(a, b, low);
      r[i + S] = __builtin_shuffle(a, b, low + S);
    }
}
#endif
template <class T> WS_FN void transpose_block(float* to, int64_t to_row, const T* from, int64_t from_row, int rows, int columns) {
#ifdef WS_GCC
  ws::vf r[VEC];
  if (rows >= VEC && columns >= VEC) {
#pragma GCC unroll 16
    for (int i = 0; i < VEC; ++i) r[i] = ws::load(from + i * from_row);
  } else {
    for (int i = 0; i < VEC; ++i) r[i] = i < rows ? ws::load_n(from + i * from_row, columns < VEC ? columns : VEC) : ws::vf{};
  }
  swap_blocks<1>(r), swap_blocks<2>(r);
  if constexpr (VEC >= 8) swap_blocks<4>(r);
  if constexpr (VEC >= 16) swap_blocks<8>(r);
#pragma GCC unroll 16
  for (int i = 0; i < VEC; ++i) ws::store(to + i * to_row, r[i]);
#else
  for (int i = 0; i < rows && i < VEC; ++i)
    for (int k = 0; k < columns && k < VEC; ++k) to[k * to_row + i] = ws::load_one(from + i * from_row + k);
#endif
}
template <class T> WS_FN void transpose(float* to, int64_t to_row, const T* from, int64_t from_row, int64_t rows, int64_t columns) {
  for (int64_t c = 0; c < columns; c += VEC)
    for (int64_t r = 0; r < rows; r += VEC)
      transpose_block(to + c * to_row + r, to_row, from + r * from_row + c, from_row, (int)(rows - r), (int)(columns - c));
}
