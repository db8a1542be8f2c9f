//! Kernel of a skinny GEMM: one tile a block, the sum over K shared by PARTS blocks (split-K).

__global__ void __launch_bounds__(SIZE) product(Operands o, float* partial) {
  constexpr unsigned ALL = BLOCKS > 0 ? (unsigned)BLOCKS : 1, DOWN = TILES > 0 ? (unsigned)TILES : 1;
  const int part = (int)(blockIdx.x / ALL);
  const unsigned number = blockIdx.x % ALL;
  const int64_t b = number / (DOWN * (unsigned)FEWS), x = number / DOWN % (unsigned)FEWS * F, y = (int64_t)(number % DOWN) * TILE;
  const int64_t start = part * SHARE * BK, end = start + SHARE * BK < K ? start + SHARE * BK : K;
  multiply(o, b, y, x, start, end, partial + part * BATCH * M * N);
}
