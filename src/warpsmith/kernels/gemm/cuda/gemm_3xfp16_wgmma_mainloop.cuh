//! Main loop of the 3xfp16 GEMM: double-buffered accumulators, a K slice is scaled and added while the next one is
//! multiplied.
      int more = p.slices - 1;
      begin(some[0]);
      for (; more >= 2; more -= 2) {
        begin(some[1]);
        ws::products_wait<1>(some[0]);
        add(some[0]);
        begin(some[0]);
        ws::products_wait<1>(some[1]);
        add(some[1]);
      }
      if (more > 0) {
        begin(some[1]);
        ws::products_wait<1>(some[0]);
        add(some[0]);
        ws::products_wait<0>(some[1]);
        add(some[1]);
      } else {
        ws::products_wait<0>(some[0]);
        add(some[0]);
      }
