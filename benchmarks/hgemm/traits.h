// What a GEMM cubin tells its driver about itself: its kernel `describe` writes the traits of its kernel `gemm`.
#pragma once

enum GemmKind { TMA_WGMMA = 1, MMA_SYNC = 2 };
enum GemmType { FP16 = 0, BF16 = 1, FP32 = 2 };

struct GemmTraits {
  int kind, in, out;
  int tile_m, tile_n, tile_k, threads, shared_bytes, blocks_per_sm;
  int cluster_m, cluster_n, split;  // split: 0 none, 1 semaphore, 2 cluster
  int swap_ab, b_transposed, counters_per_tile;
  int left_mn_major, left_box_inner, left_box_outer;  // elements of a loaded box
  int right_mn_major, right_box_inner, right_box_outer;
  int tma_store, store_box_inner, store_box_outer;
  int vector_a, vector_b;  // MMA_SYNC: elements of a copy; pitches are multiples of it
};
