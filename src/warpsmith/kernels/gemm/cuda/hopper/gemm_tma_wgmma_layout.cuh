//! Tiles, roles and shared memory of the warp-specialised TMA + wgmma GEMM, computed from its configuration. Integers only.
#pragma once
#include "tile_schedule.cuh"

namespace ws::sm90 {

enum Split { NO_SPLIT, SPLIT_SEMAPHORE, SPLIT_CLUSTER };
enum L2Hint { L2_NORMAL, L2_EVICT_FIRST, L2_EVICT_LAST };

constexpr int SHARED_BYTES_PER_BLOCK = 227 << 10, RESERVED_BYTES_PER_BLOCK = 1024;

// C: the configuration, a struct with
//   In, Out                     types; Out is fp16, bf16 or float
//   TILE_M, TILE_N, TILE_K      a block's tile, as wgmma sees it; TILE_M of 64, 128 or 256, TILE_N of 16 ... 256 by 16
//   STAGES                      buffers of the ring
//   CONSUMERS, PINGPONG         warpgroups that multiply; each with a tile of its own (ping-pong), or all share one
//   PRODUCER_WARPS              4: with setmaxnreg; 1: without
//   PRODUCER_REGISTERS, CONSUMER_REGISTERS
//   MIN_BLOCKS                  blocks of a multiprocessor
//   CLUSTER_M, CLUSTER_N        blocks that share the right and the left operand by multicast
//   SWAP_AB                     multiply Bᵀ Aᵀ: wgmma's 64 rows go along the problem's N; for small M
//   B_TRANSPOSED                B is stored N x K, else K x N
//   PANEL_N                     width of the panels of an MN-major right operand: 64, 32 or 16
//   SPLIT                       of K: none, by semaphore in global memory, by cluster through DSMEM
//   TMA_STORE, STORE_BOXES      by stmatrix and TMA, so many boxes staged at once (0: as many as fit); else from registers
//   EPILOGUE_BYTES              shared memory in which an epilogue of its own stages a warpgroup's results; 0: there is none
//   LEFT_HINT, RIGHT_HINT       L2Hint
template <class C>
struct GemmLayout {
  static constexpr bool LEFT_MN_MAJOR = C::SWAP_AB && !C::B_TRANSPOSED, RIGHT_MN_MAJOR = !C::SWAP_AB && !C::B_TRANSPOSED;
  using Left = OperandTile<LEFT_MN_MAJOR, C::TILE_M, C::TILE_K, 64>;
  using Right = OperandTile<RIGHT_MN_MAJOR, C::TILE_N, C::TILE_K, C::PANEL_N>;

  static constexpr int CLUSTER = C::CLUSTER_M * C::CLUSTER_N;  // without the blocks along K
  static constexpr int GROUPS = C::PINGPONG ? 1 : C::CONSUMERS;  // warpgroups that share a tile
  static constexpr int GROUP_ROWS = C::TILE_M / GROUPS, MMAS = GROUP_ROWS / 64;
  static constexpr int THREADS = 128 * C::CONSUMERS + 32 * C::PRODUCER_WARPS;
  static constexpr int STAGE_BYTES = Left::BYTES + Right::BYTES;
  // Every warp that reads a stage arrives, in each block whose copies write into this one's shared memory or read from it.
  static constexpr int EMPTY_ARRIVALS = 4 * GROUPS * (C::CLUSTER_M + C::CLUSTER_N - 1);

  // A loaded box: rows of K or of the operand, shared out among the blocks that multicast.
  static constexpr int LEFT_BOX_ROWS = Left::PANEL_ROWS / C::CLUSTER_N, RIGHT_BOX_ROWS = Right::PANEL_ROWS / C::CLUSTER_M;

  // A stored box: 64 rows and a panel, or (swapped) a panel of 64 and all of TILE_N.
  static constexpr int STORE_WIDTH = C::SWAP_AB ? 64 : panel_width(C::TILE_N);
  static constexpr int STORE_ROWS = C::SWAP_AB ? C::TILE_N : 64;
  static constexpr int BOXES = C::SWAP_AB ? MMAS : MMAS * (C::TILE_N / STORE_WIDTH);  // of a warpgroup's tile
  static constexpr int BOX_BYTES = STORE_ROWS * STORE_WIDTH * 2;

  static constexpr int PARTIAL_PITCH = C::TILE_N + 8;  // floats; 8 or 24 modulo the 32 banks
  static constexpr int PARTIAL_BYTES = C::SPLIT == SPLIT_CLUSTER ? C::TILE_M * PARTIAL_PITCH * 4 : 0;
  static constexpr int STAGED_BYTES = C::STAGES * STAGE_BYTES;
  static constexpr int RING_BYTES = STAGED_BYTES > PARTIAL_BYTES ? STAGED_BYTES : (PARTIAL_BYTES + 1023) / 1024 * 1024;
  static constexpr int CONTROL_BYTES = 2 * C::STAGES * 8 + 16;  // barriers, flags
  static constexpr int MOST_BYTES =
      (SHARED_BYTES_PER_BLOCK + RESERVED_BYTES_PER_BLOCK) / C::MIN_BLOCKS - RESERVED_BYTES_PER_BLOCK;
  static constexpr int FITTING = (MOST_BYTES - 1024 - RING_BYTES - CONTROL_BYTES) / (C::CONSUMERS * BOX_BYTES);
  static constexpr int WANTED = C::STORE_BOXES > 0 ? C::STORE_BOXES : FITTING;
  static constexpr int STAGED_BOXES = !C::TMA_STORE ? 0 : WANTED < BOXES ? WANTED : BOXES;
  static constexpr int GROUP_STAGING_BYTES = STAGED_BOXES * BOX_BYTES + C::EPILOGUE_BYTES;
  static constexpr int STAGING_BYTES = C::CONSUMERS * GROUP_STAGING_BYTES;
  static constexpr int SHARED_BYTES = 1024 + RING_BYTES + STAGING_BYTES + CONTROL_BYTES;

  static_assert(C::TILE_M % (64 * GROUPS) == 0 && C::TILE_N % 16 == 0 && C::TILE_N <= 256 && C::TILE_K % 64 == 0);
  static_assert(C::CONSUMERS == 1 || C::CONSUMERS == 2);
  static_assert(!C::PINGPONG || C::CONSUMERS == 2, "ping-pong takes two consumer warpgroups");
  static_assert(CLUSTER <= 8 && LEFT_BOX_ROWS % 8 == 0 && RIGHT_BOX_ROWS % 8 == 0, "shares of whole swizzle atoms");
  static_assert(C::SPLIT != SPLIT_CLUSTER || (CLUSTER == 1 && !C::PINGPONG && !C::TMA_STORE));
  static_assert(C::EPILOGUE_BYTES % 16 == 0 && (C::EPILOGUE_BYTES == 0 || (!C::TMA_STORE && !C::SWAP_AB && C::SPLIT != SPLIT_CLUSTER)));
  static_assert(!C::TMA_STORE || (STAGED_BOXES > 0 && sizeof(typename C::Out) == 2), "no room to stage results");
  static_assert(SHARED_BYTES <= MOST_BYTES, "more shared memory than a block may have");
  static_assert(C::PRODUCER_WARPS == 1 || (C::PRODUCER_WARPS == 4 && C::CONSUMERS == 2));
  static_assert(C::PRODUCER_WARPS == 1 ||
                    128 * (C::PRODUCER_REGISTERS + C::CONSUMERS * C::CONSUMER_REGISTERS) <= 65536 / THREADS / 8 * 8 * THREADS,
                "more registers than the launch has");
};

}  // namespace ws::sm90
