//! Producer of the small-M 3xfp16 GEMM: two warpgroups read the large factor once as fp32, a K slice ahead in
//! registers, split it to fp16 in swizzled shared memory; the small factor comes split by bulk copy. $right: operand of
//! the large factor.
    ws::registers_less<104>();
    constexpr int ITEMS = TILE * BK / 8 / 256;
    const int own = threadIdx.x - 256, k_vector = own % 8, line = own / 8;
    const unsigned char* const scales = images + IMAGES * IMAGE;
    unsigned number = blockIdx.x;
    Piece p;
    int s = 0;
    bool more = false;
    const auto seek = [&] {
      for (more = false; !more && number < (unsigned)WORK; number += more ? 0 : BLOCKS) p = piece(number), more = p.slices > 0;
    };
    const auto ask = [&](float (&x)[ITEMS][8]) {  // this thread's vectors of 8 of slice s of p
      const int64_t k = ((int64_t)p.part * SHARE + s) * BK + 8 * k_vector;
#pragma unroll
      for (int i = 0; i < ITEMS; i++) {
        const int64_t n = p.n + 32 * i + line;
        const float* const at = o.$right + (right_at(p.b, 0) + n * RIGHT_N + k);
#pragma unroll
        for (int e = 0; e < 8; e += RIGHT_VEC) {
          ws::Pack<float, RIGHT_VEC> some = {};
          if (n < N && k + e < K) some = ws::load_pack<RIGHT_VEC>(at + e);
#pragma unroll
          for (int v = 0; v < RIGHT_VEC; v++) x[i][e + v] = some.at[v];
        }
      }
    };
    const auto put = [&](const float (&x)[ITEMS][8], int64_t left) {
      unsigned char* const to = stages + stage * STAGE;
      ws::barrier_wait(empty + stage, phase ^ 1);
      if (own == 0) {
        ws::barrier_expect(full + stage, IMAGE + SCALES);
        ws::bulk_copy(to, images + left * IMAGE, IMAGE, full + stage);
        ws::bulk_copy(to + 2 * IMAGE, scales + left * SCALES, SCALES, full + stage);
      }
#pragma unroll
      for (int i = 0; i < ITEMS; i++)
        store_core_matrix_row(x[i], to + IMAGE, 32 * i + line, k_vector, reinterpret_cast<float*>(to + 2 * IMAGE + SCALES));
      ws::shared_stored();
      ws::barrier_arrive(full + stage);
      if (++stage == STAGES) stage = 0, phase ^= 1;
    };
    float x[2][ITEMS][8];
    const auto turn = [&](const float (&now)[ITEMS][8], float (&next)[ITEMS][8]) {
      const int64_t left = p.left + s;
      if (++s == p.slices) s = 0, number += BLOCKS, seek();
      if (more) ask(next);
      put(now, left);
    };
    seek();
    if (more) ask(x[0]);
    while (more) {
      turn(x[0], x[1]);
      if (more) turn(x[1], x[0]);
    }
