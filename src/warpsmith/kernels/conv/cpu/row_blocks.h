//! Direct convolution for few output channels, register tiles of BLOCK output rows of one channel by UNROLL vectors.
for (int64_t channel = g * OG; channel < (g + 1) * OG; ++channel) {
  const float start = $bias;
  for (int64_t base = 0; base < rows; base += BLOCK) {
    $register_tiles
    for (int64_t r = base; r < least(rows, base + BLOCK); ++r) {
      const int64_t at[] = {$out_at};
      epilogue(tile + (r - base) * RUN, at, cols);
    }
  }
}
