//! Local response normalisation: walks the channels with a ring buffer of a window's squares in the L1 cache; each window is
//! summed anew in float32, so that an infinity leaves with its channel; one parallel loop over samples and groups of lines.
ws::parallel_ranges(THREADS, SAMPLES * GROUPS, 1, [&](int64_t begin, int64_t end, int part) {
  float* const ring = (float*)workspace + part * (SIZE + 1) * ROOM;  // channel c in slot c % SIZE
  float* const sums = ring + SIZE * ROOM;
  for (int64_t task = begin; task < end; ++task) {
    const int64_t first = task % GROUPS * GROUP;
    const int64_t lines = first + GROUP < LINES ? GROUP : LINES - first;
    const auto fill = [&](int64_t c) {
      float* const slot = ring + c % SIZE * ROOM;
      if (c >= CHANNELS) {
        for (int64_t j = 0; j < lines * PITCH; ++j) slot[j] = 0;
        return;
      }
      for (int64_t line = 0; line < lines; ++line) {
        const int64_t at[] = {$index};
        prologue0(slot + line * PITCH, at, WIDTH);
      }
    };
    for (int64_t j = 0; j < SIZE * ROOM; ++j) ring[j] = 0;
    for (int64_t c = 0; c < AHEAD; ++c) fill(c);
    for (int64_t c = 0; c < CHANNELS; ++c) {
      fill(c + AHEAD);
      for (int64_t j = 0; j < lines * PITCH; j += VEC) {
        ws::vf sum = ws::load(ring + j);
        for (int64_t k = 1; k < SIZE; ++k) sum += ws::load(ring + k * ROOM + j);
        ws::store(sums + j, sum / (float)SIZE);
      }
      for (int64_t line = 0; line < lines; ++line) {
        const int64_t at[] = {$index};
        epilogue(sums + line * PITCH, at, WIDTH);
      }
    }
  }
  if (NT) ws::fence();
});
