//! Direct convolution, register tiles of BLOCK output channels by UNROLL vectors; the rows of a band are one contiguous run.
const int64_t run = (rows - 1) * PITCH + cols;
for (int64_t b = 0; b < BLOCKS; ++b) {
  const int64_t first = g * OG + b * BLOCK, live = least(BLOCK, OG - b * BLOCK);
  float start[BLOCK] = {};
  for (int64_t channel = first; channel < first + live; ++channel) start[channel - first] = $bias;
  $register_tiles
  for (int64_t channel = first; channel < first + live; ++channel)
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at[] = {$out_at};
      epilogue(tile + (channel - first) * RUN + r * PITCH, at, cols);
    }
}
