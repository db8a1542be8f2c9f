//! Epilogue of the warp-specialised implicit GEMM that reduces over channels: a thread walks all channels of one
//! output. $output_index: implicit_gemm_warp_specialized_output_index.cuh; $value: result after the pointwise chain;
//! $steps: the reduction.
      for (int q = me; q < 64 * INNER; q += 128) {
$output_index
          at[1] = 0;
        const auto take = [&](int c) {
          [[maybe_unused]] int64_t of[RANK];
          for (int d = 0; d < RANK; d++) of[d] = at[d];
          of[1] = c;
          const ws::Pack<float, 1> row = {{mine[c * PITCH + q]}};
          return $value.at[0];
        };
$steps
      }
