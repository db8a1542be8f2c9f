//! Direct convolution: weights are packed once to [group][block of channels][tap][channel]; each task packs the padded input rows
//! of a band of output rows into the thread's scratch as float32, split by stride phase, so that inner loops read
//! contiguously and never test for a border; one parallel loop over images, groups, bands and column segments; float32
//! accumulation; at most three spatial dimensions.
// Weights as float32: [group][block of output channels][tap][channel of the block], zeros past the last channel.
constexpr int64_t wide = $block;
float* const weights = (float*)workspace;
ws::parallel_ranges(THREADS, G * BLOCKS, 1 + (1 << 15) / (TAPS * wide), [&](int64_t begin, int64_t end, int) {
  for (int64_t b = begin; b < end; ++b) {
    float* to = weights + b * TAPS * wide;
    for (int64_t c = 0; c < IC; ++c)
      for (int64_t kd = 0; kd < KD; ++kd)
        for (int64_t kh = 0; kh < KH; ++kh)
          for (int64_t kw = 0; kw < KW; ++kw)
            for (int64_t o = 0; o < wide; ++o) {
              const int64_t channel = b / BLOCKS * OG + b % BLOCKS * wide + o;
              const bool real = b % BLOCKS * wide + o < OG;
              *to++ = real ? ws::load_one($weight_at) : 0.0f;
            }
  }
});
constexpr int64_t work = most(1, OG * TAPS * ROWS * COLS);  // of a task
constexpr auto used = [](int64_t phase, int64_t size, int64_t dilation, int64_t stride) {
  for (int64_t k = 0; k < size; ++k)
    if (k * dilation % stride == phase) return true;
  return false;
};
const auto zero = [](float* to, int64_t count) { __builtin_memset(to, 0, (size_t)count * sizeof(float)); };
ws::parallel_ranges(THREADS, N * G * OD * BANDS * SEGMENTS, most(1, $min_work / work), [&](int64_t begin, int64_t end, int part) {
  float* const packed = weights + WEIGHTS + part * SCRATCH;  // [channel][kd][row phase][column phase][row][column]
  float* const tile = packed + PACKED;
  [[maybe_unused]] float* const line = tile + TILE;
  for (int64_t task = begin; task < end; ++task) {
    const int64_t left = task % SEGMENTS * COLS, top = task / SEGMENTS % BANDS * ROWS;
    const int64_t od = task / (SEGMENTS * BANDS) % OD, g = task / (SEGMENTS * BANDS * OD) % G;
    const int64_t n = task / (SEGMENTS * BANDS * OD * G);
    const int64_t rows = least(ROWS, OH - top), cols = least(COLS, OW - left);
    const int64_t first_column = left * SW - PW;
    const int64_t from = most(0, -first_column);
    const int64_t to = most(from, least(IW - first_column, (cols - 1) * SW + (KW - 1) * DW + 1));
    for (int64_t c = 0; c < IC; ++c)
      for (int64_t kd = 0; kd < KD; ++kd)
        for (int64_t r = 0; r < (rows - 1) * SH + (KH - 1) * DH + 1; ++r) {
          if (!used(r % SH, KH, DH, SH)) continue;
          const int64_t d = od * SD + kd * DD - PD, h = top * SH + r - PH;
          const bool inside = d >= 0 && d < ID && h >= 0 && h < IH && to > from;
          float* const row = packed + (c * KD + kd) * PLANE + r % SH * SW * PHASE + r / SH * PITCH;
          float* const whole = SW == 1 ? row : line;
          if (inside) {
            const int64_t at[] = {$image_at};
            zero(whole, from);
            prologue0(whole + from, at, to - from);
            zero(whole + to, SW * PITCH - to);
          } else {
            zero(whole, SW * PITCH);
          }
          for (int64_t q = 0; SW > 1 && q < SW; ++q)
            if (used(q, KW, DW, SW))
              for (int64_t i = 0; i < PITCH; ++i) row[q * PHASE + i] = line[i * SW + q];
        }
    $loops
  }
  if (NT) ws::fence();
});
