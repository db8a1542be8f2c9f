//! The half-precision GEMM by TMA and wgmma as a kernel of a unit: warp-specialised, persistent, tiles of BM x BN through a
//! ring of RING_STAGES, in clusters of CLUSTER_SHAPE_M x CLUSTER_SHAPE_N that share them by multicast; sums go through shared memory to
//! the unit's own epilogue, rows of neighbours at a time.
//! $ping_pong: warpgroups take tiles in turns; $transposed: the right factor is stored N x K.

struct GemmConfig {
  using In = left_t;
  using Out = float;  // sums: the epilogue rounds
  static constexpr int TILE_M = BM, TILE_N = BN, TILE_K = 64, STAGES = RING_STAGES, CONSUMERS = 2;
  static constexpr bool PINGPONG = $ping_pong, SWAP_AB = false, B_TRANSPOSED = $transposed, TMA_STORE = false;
  static constexpr int PRODUCER_WARPS = 4, PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232;
  static constexpr int MIN_BLOCKS = 1, PANEL_N = 64, SPLIT = ws::sm90::NO_SPLIT;
  static constexpr int CLUSTER_M = CLUSTER_SHAPE_M, CLUSTER_N = CLUSTER_SHAPE_N;
  static constexpr int EPILOGUE_BYTES = ws::sm90::ROW_STAGING_BYTES, STORE_BOXES = 0;
  static constexpr int LEFT_HINT = ws::sm90::L2_NORMAL, RIGHT_HINT = ws::sm90::L2_NORMAL;
};
using GemmPlan = ws::sm90::GemmLayout<GemmConfig>;

struct RowEpilogue {
  const Operands& o;
  __device__ __forceinline__ float operator()(float sum, int, int) const { return sum; }
  template <int MMAS, int SUMS>
  __device__ __forceinline__ void store(const float (&sums)[MMAS][SUMS], int row, int column, float* staging) const {
    ws::sm90::stage_rows<OUT_VEC>(sums, row, column, (int)M, (int)N, staging, [this](int m, int n, const float* at) {
      finish<OUT_VEC>(o, 0, m, n, ws::load_pack<OUT_VEC>(at));
    });
  }
};

#if CLUSTER_SHAPE_M * CLUSTER_SHAPE_N > 1
#define IN_CLUSTERS __cluster_dims__(CLUSTER_SHAPE_M * CLUSTER_SHAPE_N, 1, 1)
#else
#define IN_CLUSTERS
#endif
__global__ void IN_CLUSTERS __launch_bounds__(GemmPlan::THREADS, 1)
    product(Operands o, const __grid_constant__ CUtensorMap left, const __grid_constant__ CUtensorMap right) {
  extern __shared__ __align__(1024) unsigned char gemm_shared[];
  const ws::sm90::GemmArguments<RowEpilogue> arguments{
      (int)M, (int)N, (int)K, GROUP, 0, 1, nullptr, nullptr, nullptr, 0, 0, 0, nullptr, nullptr, RowEpilogue{o}};
  ws::sm90::GemmTmaWgmma<GemmConfig, RowEpilogue> kernel{&left, &right, &left, arguments, {}, 0};
  kernel.run(gemm_shared);
}
constexpr int64_t GEMM_TILES =
    ws::ceil_div(M, (int64_t)BM * CLUSTER_SHAPE_M) * ws::ceil_div(N, (int64_t)BN * CLUSTER_SHAPE_N) * GemmPlan::CLUSTER;
constexpr int64_t GEMM_BLOCKS = GEMM_TILES < GRID ? GEMM_TILES : GRID / GemmPlan::CLUSTER * GemmPlan::CLUSTER;
