// One configuration of the TMA + wgmma GEMM, chosen by -D, as a kernel `gemm` beside a kernel `describe` of its traits.
#include "gemm_tma_wgmma.cuh"
#include "unit_types.h"

namespace {
struct Config {
  using In = InType;
  using Out = OutputType;
  static constexpr int TILE_M = G_BM, TILE_N = G_BN, TILE_K = G_BK, STAGES = G_STAGES, CONSUMERS = G_CONSUMERS;
  static constexpr bool PINGPONG = G_PINGPONG;
  static constexpr int PRODUCER_WARPS = G_PRODUCER_WARPS, PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232;
  static constexpr int MIN_BLOCKS = G_BLOCKS_PER_SM, CLUSTER_M = G_CM, CLUSTER_N = G_CN;
  static constexpr bool SWAP_AB = G_SWAP, B_TRANSPOSED = G_BT;
  static constexpr int PANEL_N = G_PANEL, SPLIT = G_SPLIT;
  static constexpr bool TMA_STORE = G_TMA_STORE;
  static constexpr int EPILOGUE_BYTES = 0, STORE_BOXES = G_BOXES, LEFT_HINT = G_LEFT_L2, RIGHT_HINT = G_RIGHT_L2;
};
using Layout = ws::sm90::GemmLayout<Config>;
}  // namespace

extern "C" __global__ void describe(GemmTraits* traits) {
  *traits = {TMA_WGMMA, IN_TYPE, OUT_TYPE,
             G_BM, G_BN, G_BK, Layout::THREADS, Layout::SHARED_BYTES, G_BLOCKS_PER_SM,
             G_CM, G_CN, G_SPLIT, G_SWAP, G_BT, Layout::GROUPS,
             Layout::LEFT_MN_MAJOR, Layout::Left::PANEL, Layout::LEFT_BOX_ROWS,
             Layout::RIGHT_MN_MAJOR, Layout::Right::PANEL, Layout::RIGHT_BOX_ROWS,
             G_TMA_STORE, Layout::STORE_WIDTH, Layout::STORE_ROWS, 0, 0};
}

extern "C" __global__ void __launch_bounds__(Layout::THREADS, G_BLOCKS_PER_SM)
    gemm(const __grid_constant__ CUtensorMap left, const __grid_constant__ CUtensorMap right,
         const __grid_constant__ CUtensorMap result, const __grid_constant__ ws::sm90::GemmArguments<Epilogue> arguments) {
  extern __shared__ __align__(1024) unsigned char dynamic[];
  ws::sm90::GemmTmaWgmma<Config, Epilogue> kernel{&left, &right, &result, arguments, {}, 0};
  kernel.run(dynamic);
}
