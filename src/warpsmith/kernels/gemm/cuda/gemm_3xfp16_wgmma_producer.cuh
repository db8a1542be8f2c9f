//! Producer of the 3xfp16 GEMM: one thread asks for tiles and scales of both split factors by bulk copy, STAGES ahead.
    ws::registers_less<24>();
    if (threadIdx.x != 256) return;
    const unsigned char* const scales = images + IMAGES * IMAGE;
    for (unsigned number = blockIdx.x; number < (unsigned)WORK; number += BLOCKS) {
      const Piece p = piece(number);
      for (int s = 0; s < p.slices; s++) {
        unsigned char* const to = stages + stage * STAGE;
        ws::barrier_wait(empty + stage, phase ^ 1);
        ws::barrier_expect(full + stage, STAGE);
        ws::bulk_copy(to, images + (p.left + s) * IMAGE, IMAGE, full + stage);
        ws::bulk_copy(to + IMAGE, images + (p.right + s) * IMAGE, IMAGE, full + stage);
        ws::bulk_copy(to + 2 * IMAGE, scales + (p.left + s) * SCALES, SCALES, full + stage);
        ws::bulk_copy(to + 2 * IMAGE + SCALES, scales + (p.right + s) * SCALES, SCALES, full + stage);
        if (++stage == STAGES) stage = 0, phase ^= 1;
      }
    }
