//! The half-precision GEMM by TMA and wgmma as a kernel of a unit: warp-specialised, persistent, tiles of BM x BN through a
//! ring of RING_STAGES; sums go through shared memory to the unit's own epilogue, rows of neighbours at a time.
//! $ping_pong: warpgroups take tiles in turns; $transposed: the right factor is stored N x K.

struct GemmConfig {
  using In = left_t;
  using Out = float;  // sums: the epilogue rounds
  static constexpr int TILE_M = BM, TILE_N = BN, TILE_K = 64, STAGES = RING_STAGES, CONSUMERS = 2;
  static constexpr bool PINGPONG = $ping_pong, SWAP_AB = false, B_TRANSPOSED = $transposed, TMA_STORE = false;
  static constexpr int PRODUCER_WARPS = 4, PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232;
  static constexpr int MIN_BLOCKS = 1, CLUSTER_M = 1, CLUSTER_N = 1, PANEL_N = 64, SPLIT = ws::sm90::NO_SPLIT;
  static constexpr int EPILOGUE_BYTES = $epilogue_bytes, STORE_BOXES = 0;
  static constexpr int LEFT_HINT = ws::sm90::L2_NORMAL, RIGHT_HINT = ws::sm90::L2_NORMAL;
};
using GemmPlan = ws::sm90::GemmLayout<GemmConfig>;

struct RowEpilogue {
  const Operands& o;
  __device__ __forceinline__ float operator()(float sum, int, int) const { return sum; }
  // A warp's sums of 16 rows and 32 columns at a time, so that a row's neighbours go together.
  template <int MMAS, int SUMS>
  __device__ __forceinline__ void store(const float (&sums)[MMAS][SUMS], int row, int column, uint32_t staging) const {
    constexpr int PITCH = 40, V = OUT_VEC;
    static_assert(SUMS % 16 == 0, "whole steps of 32 columns");
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    float* const own = (float*)__cvta_shared_to_generic(staging) + warp * 16 * PITCH;
#pragma unroll
    for (int i = 0; i < MMAS; i++)
#pragma unroll
      for (int step = 0; step < SUMS / 16; step++) {
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
          for (int half = 0; half < 2; half++) {
            const int at = 16 * step + 4 * j + 2 * half;
            ws::store_pack<2>(own + (lane / 4 + 8 * half) * PITCH + 8 * j + lane % 4 * 2,
                              ws::Pack<float, 2>{{sums[i][at], sums[i][at + 1]}});
          }
        __syncwarp();
#pragma unroll 1
        for (int pack = lane; pack < 16 * 32 / V; pack += 32) {
          const int r = pack / (32 / V), c = pack % (32 / V) * V;
          const int64_t m = row + 64 * i + 16 * warp + r, n = column + 32 * step + c;
          if (m < M && n < N) finish<V>(o, 0, m, n, ws::load_pack<V>(own + r * PITCH + c));
        }
        __syncwarp();
      }
  }
};

__global__ void __launch_bounds__(GemmPlan::THREADS, 1)
    product(Operands o, const __grid_constant__ CUtensorMap left, const __grid_constant__ CUtensorMap right) {
  extern __shared__ __align__(1024) unsigned char gemm_shared[];
  const ws::sm90::GemmArguments<RowEpilogue> arguments{
      (int)M, (int)N, (int)K, GROUP, 0, 1, nullptr, nullptr, nullptr, 0, 0, 0, nullptr, nullptr, RowEpilogue{o}};
  ws::sm90::GemmTmaWgmma<GemmConfig, RowEpilogue> kernel{&left, &right, &left, arguments, {}, 0};
  kernel.run(gemm_shared);
}
constexpr int64_t GEMM_TILES = ws::ceil_div(M, (int64_t)BM) * ws::ceil_div(N, (int64_t)BN);
