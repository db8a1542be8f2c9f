// One configuration of the mma.sync GEMM, chosen by -D, as a kernel `gemm` beside a kernel `describe` of its traits.
#include "gemm_mma_sync.cuh"
#include "unit_types.h"

namespace {
struct Config {
  using In = InType;
  using Out = OutputType;
  static constexpr int TILE_M = G_BM, TILE_N = G_BN, TILE_K = G_BK, STAGES = G_STAGES;
  static constexpr int WARPS_M = G_WM, WARPS_N = G_WN, WARPS_K = G_WK, VECTOR_A = G_VA, VECTOR_B = G_VB;
  static constexpr bool B_TRANSPOSED = G_BT, SPLIT_K = G_SPLIT;
};
using Layout = ws::sm90::GemmMmaSyncLayout<Config>;
}  // namespace

extern "C" __global__ void describe(GemmTraits* traits) {
  *traits = {MMA_SYNC, IN_TYPE, OUT_TYPE, G_BM, G_BN, G_BK, Layout::THREADS, Layout::SHARED_BYTES, G_BLOCKS_PER_SM,
             1, 1, G_SPLIT, 0, G_BT, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, G_VA, G_VB};
}

extern "C" __global__ void __launch_bounds__(Layout::THREADS, G_BLOCKS_PER_SM)
    gemm(const __grid_constant__ ws::sm90::GemmArguments<Epilogue> arguments) {
  extern __shared__ __align__(1024) unsigned char dynamic[];
  ws::sm90::GemmMmaSync<Config, Epilogue> kernel{arguments, nullptr, 0};
  kernel.run(dynamic);
}
