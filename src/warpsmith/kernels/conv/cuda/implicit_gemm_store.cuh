//! Epilogue of an implicit GEMM: adds the bias and stores a tile from shared memory, neighbouring threads neighbouring
//! outputs. Sees `staged`: the result of channel c and pixel p of the tile at staged[c * STAGED + p].
  constexpr int PACKS = TILE_PIXELS * INNER / V, SIDE = PACKS < THREADS ? PACKS : THREADS, HIGH = THREADS / SIDE;
  for (int p = threadIdx.x < SIDE * HIGH ? threadIdx.x % SIDE : PACKS; p < PACKS; p += SIDE) {
    const int column = p * V % (TILE_W * INNER), row = p * V / (TILE_W * INNER);
    const int x = (x0 * INNER + column) * (PHASES_W / INNER) + phase_w(outer, 0);
    const int y = (y0 + row % TILE_H) * PHASES_H + phase_h(outer), z = (z0 + row / TILE_H) * PHASES_D + phase_d(outer);
    if (x >= OW || y >= OH || z >= OD) continue;
    int64_t at[RANK];
    at[0] = image;
    at[RANK - (SPACE > 2 ? 3 : 1)] = z;
    at[RANK - (SPACE > 1 ? 2 : 1)] = y;
    at[RANK - 1] = x;
#pragma unroll 4
    for (int c = threadIdx.x / SIDE; c < CHANNELS; c += HIGH) {
      const int channel = block * CHANNELS + c;
      if (channel >= OUTS) break;
      at[1] = group * OUTS + channel;
      ws::Pack<float, V> made = ws::load_pack<V>(staged + c * STAGED + p * V);
      const float bias = bias_of(o, at[1]);
#pragma unroll
      for (int v = 0; v < V; v++) made.at[v] += bias;
      epilogue<V>(o, made, at);
    }
  }
