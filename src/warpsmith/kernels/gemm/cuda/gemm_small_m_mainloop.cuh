//! Main loop of the small-M 3xfp16 GEMM: one accumulator a warpgroup; while one warpgroup adds, the other one
//! multiplies.
      for (int s = 0; s < p.slices; s++) {
        begin(some);
        ws::products_wait<0>(some);
        add(some);
      }
