//! Start of a weight-packing kernel with one block a K slice: block of output channels, chunk of input channels, slice
//! and phase.
  const int block = blockIdx.x / ALL_SLICES, all = blockIdx.x % ALL_SLICES;
  int outer = 0;
  for (int sum = 0; outer < OUTER - 1; outer++) {
    sum += TABLE.slices_of(outer) * CHUNKS;
    if (all < sum) break;
  }
  const int one = all - TABLE.before(outer) * CHUNKS, each = TABLE.slices_of(outer);
  const int chunk = one / each;
  int slice = one % each, list = outer * INNER;
  while (slice >= TABLE.slices(list)) slice -= TABLE.slices(list++);
