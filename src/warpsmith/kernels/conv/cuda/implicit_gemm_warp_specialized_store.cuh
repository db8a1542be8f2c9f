//! Epilogue of the warp-specialised implicit GEMM: a warpgroup stores its results from shared memory, vectorised along
//! the width. $output_index: implicit_gemm_warp_specialized_output_index.cuh.
      constexpr int SIDE = 64 * INNER / V, ABOVE = SIDE < 128 ? 128 / SIDE : 1;
      for (int q = me < SIDE * ABOVE ? me % SIDE : SIDE; q < SIDE; q += 128) {
$output_index
          if (!inside) continue;
#pragma unroll 4
        for (int c = me / SIDE; c < ABREAST; c += ABOVE) {
          const int channel = block * CHANNELS + first + c;
          if (channel >= OUTS) break;
          at[1] = group * OUTS + channel;
          const ws::Pack<float, V> made = ws::load_pack<V>(mine + c * PITCH + q * V);
          epilogue<V>(o, made, at);
        }
      }
