"""CUDA C++ of `halves`: how the patch of a tile comes to shared memory, from floats in memory to octets of halves."""

PATCH = """\
  // The tile whose patch is asked for: its first place in the grid, its image.
  int asked_x, asked_y, asked_z, asked_image;
  const float* from;
  // Where the patch's places lie in a channel of the image, of several taps the first one.
  constexpr int OUTSIDE = -0x7fffffff;
  const auto column_of = [&](int place) {
    const int column = place % ROW;
    return asked_x * PACE_W + LOW_W + column % HALF * PACE_W + column / HALF;
  };
  const auto turn_to = [&](unsigned tile) {
    asked_x = tile % (unsigned)TILES_W * TILE_W, asked_y = tile / (unsigned)TILES_W % (unsigned)TILES_H * TILE_H;
    asked_z = tile / (unsigned)(TILES_W * TILES_H) % (unsigned)TILES_D * TILE_D;
    asked_image = tile / (unsigned)(TILES_W * TILES_H * TILES_D);
    from = o.@IN + asked_image * JUMP_N + group * INS * JUMP_C;
    for (int i = threadIdx.x; i < PLANE; i += THREADS) {
      const int row = i / ROW, x = column_of(i);
      const int y = asked_y * PACE_H + LOW_H + row % SPAN_H, z = asked_z * PACE_D + LOW_D + row / SPAN_H;
      const bool there = (REACH > 1 || (x >= 0 && x < (int)IW)) && y >= 0 && y < (int)IH && z >= 0 && z < (int)ID;
      places[i] = there ? (int)(z * JUMP_D + y * JUMP_H + x * JUMP_W) : OUTSIDE;
    }
  };
  int exponent;  // of the largest element so far, of which the sums are multiples
  const auto load = [&](float (&x)[8], int item, int chunk) {
    const int plane = item / PLANE, place = places[item % PLANE];
    const bool there = place != OUTSIDE;
    const int first = REACH == 1 ? chunk * DEPTH + plane * 8 : 0;
    const float* const at = from + (there ? place + first * JUMP_C : 0);
    if constexpr (REACH == 1) {
#pragma unroll
      for (int j = 0; j < 8; j++) x[j] = there && (INS % DEPTH == 0 || first + j < INS) ? at[j * JUMP_C] : 0.0f;
    } else {
      const int column = column_of(item % PLANE), taps = LEFT != 0 && plane == OCTETS - 1 ? LEFT : REACH;
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const int tap = j / FEW, c = j % FEW, x_there = column + tap * LW;
        x[j] = there && tap < taps && c < INS && x_there >= 0 && x_there < (int)IW ? at[tap * LW * JUMP_W + c * JUMP_C] : 0.0f;
      }
    }
  };
  float held[HELD][8];
  const auto ask = [&](int chunk) {
#pragma unroll
    for (int h = 0; h < HELD; h++) {
      const int item = h * THREADS + threadIdx.x;
      if (item < ITEMS) {
        load(held[h], item, chunk);
      } else {
#pragma unroll
        for (int j = 0; j < 8; j++) held[h][j] = 0.0f;
      }
    }
  };
  // The largest element of what is held, or of all of a chunk of the patch but infinities. All threads have the same one; it
  // is a barrier of the block.
  const auto largest_of = [&](int chunk, bool all) {
    float most = 0.0f;
    const auto see = [&](const float (&x)[8]) {
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const float size = fabsf(x[j]);
        most = fmaxf(most, all && size == INFINITY ? 0.0f : size);
      }
    };
#pragma unroll
    for (int h = 0; h < HELD; h++) see(held[h]);
    for (int item = HELD * THREADS + threadIdx.x; all && item < ITEMS; item += THREADS) {
      float x[8];
      load(x, item, chunk);
      see(x);
    }
    most = ws::warp_max(most);
    if (lane == 0) largest[warp] = most;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < WARPS; w++) most = fmaxf(most, largest[w]);
    return most;
  };
  // A chunk of the patch as halves. The largest element of what this thread did not hold.
  const auto convert = [&](int chunk) {
    const float up = power_of_two(141 - exponent);
#pragma unroll
    for (int h = 0; h < HELD; h++) {
      const int item = h * THREADS + threadIdx.x;
      if (item < ITEMS) store_octet(held[h], up, patch + item * OCTET, patch + IMAGE_BYTES + item * OCTET);
    }
    float most = 0.0f;
#pragma unroll 2
    for (int item = HELD * THREADS + threadIdx.x; item < ITEMS; item += THREADS) {
      float x[8];
      load(x, item, chunk);
#pragma unroll
      for (int j = 0; j < 8; j++) most = fmaxf(most, fabsf(x[j]));
      store_octet(x, up, patch + item * OCTET, patch + IMAGE_BYTES + item * OCTET);
    }
    ws::shared_stored();
    return most;
  };
"""
