//! Fused epilogue of an implicit GEMM: the value of a channel at a place, recomputed from the tile in shared memory on
//! demand: bias, pointwise chain, pooling window. $pointwise: a statement on `row`; $start, $combine, $finish: the
//! pooling.
  struct Place {
    int x, y, z, at;
    bool inside;
  };
  const auto place = [&](int q) {
    const int column = q % SIDE_W * WINDOW_W, row = q / SIDE_W % SIDE_H * WINDOW_H, plane = q / (SIDE_W * SIDE_H) * WINDOW_D;
    Place found;
    found.x = ((x0 * INNER + column) * (PHASES_W / INNER) + phase_w(outer, 0)) / WINDOW_W;
    found.y = ((y0 + row) * PHASES_H + phase_h(outer)) / WINDOW_H;
    found.z = ((z0 + plane) * PHASES_D + phase_d(outer)) / WINDOW_D;
    found.at = (plane * TILE_H + row) * (TILE_W * INNER) + column;
    found.inside = found.x < ENDS_W && found.y < ENDS_H && found.z < ENDS_D;
    if (!found.inside) found.x = found.y = found.z = 0;
    return found;
  };
  // Where a place's value of channel `out` of the group lies in what follows.
  const auto index = [&](int64_t (&at)[RANK], const Place& of, int out) {
    at[0] = image;
    at[RANK - (SPACE > 2 ? 3 : 1)] = of.z;
    at[RANK - (SPACE > 1 ? 2 : 1)] = of.y;
    at[RANK - 1] = of.x;
    at[1] = group * OUTS + out;
  };
  // The value of channel c of the block at a place.
  const auto take = [&](int c, const Place& of) {
    int64_t at[RANK];
    index(at, of, block * CHANNELS + c);
    const float bias = bias_of(o, at[1]);
    float made = $start;
#pragma unroll
    for (int d = 0; d < WINDOW_D; d++)
#pragma unroll
      for (int h = 0; h < WINDOW_H; h++)
#pragma unroll
        for (int w = 0; w < WINDOW_W; w += NEAR) {
          at[RANK - (SPACE > 2 ? 3 : 1)] = of.z * WINDOW_D + d;
          at[RANK - (SPACE > 1 ? 2 : 1)] = of.y * WINDOW_H + h;
          at[RANK - 1] = of.x * WINDOW_W + w;
          ws::Pack<float, NEAR> row = ws::load_pack<NEAR>(staged + c * STAGED + of.at + (d * TILE_H + h) * (TILE_W * INNER) + w);
#pragma unroll
          for (int v = 0; v < NEAR; v++) row.at[v] += bias;
          $pointwise
#pragma unroll
          for (int v = 0; v < NEAR; v++) made = $combine;
        }
    return $finish;
  };
