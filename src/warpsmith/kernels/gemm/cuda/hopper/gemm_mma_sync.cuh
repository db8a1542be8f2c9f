//! GEMM with small tiles (sm_80 mma.sync). cp.async into a ring of swizzled stages, ldmatrix, m16n8k16; a tile a block, warps
//! along M, N and K; split-K by semaphore. fp16 or bf16 factors, fp32 sums, any sizes. For products that one wave finishes.
#pragma once
#include "dependent_launch.cuh"
#include "gemm_epilogue.cuh"
#include "mma_sync.cuh"
#include "tile_schedule.cuh"

namespace ws::sm90 {

// C: the configuration, a struct with In, Out, TILE_M, TILE_N, TILE_K, WARPS_M, WARPS_N, WARPS_K, STAGES, B_TRANSPOSED (B is
// stored N x K), SPLIT_K, and VECTOR_A, VECTOR_B: elements of a copy, 8, 4, 2 or 1, which divide the pitches.
template <class C>
struct GemmMmaSyncLayout {
  static constexpr int THREADS = 32 * C::WARPS_M * C::WARPS_N * C::WARPS_K;
  static constexpr int WARP_M = C::TILE_M / C::WARPS_M, WARP_N = C::TILE_N / C::WARPS_N;
  static constexpr int A_PANEL = panel_width(C::TILE_K), B_PANEL = panel_width(C::B_TRANSPOSED ? C::TILE_K : C::TILE_N);
  static constexpr int A_BYTES = C::TILE_M * C::TILE_K * 2, STAGE_BYTES = A_BYTES + C::TILE_N * C::TILE_K * 2;
  static constexpr int STAGED_BYTES = C::STAGES * STAGE_BYTES, REDUCED_BYTES = (C::WARPS_K - 1) * C::TILE_M * C::TILE_N * 4;
  static constexpr int FLAG = STAGED_BYTES > REDUCED_BYTES ? STAGED_BYTES : REDUCED_BYTES;
  static constexpr int SHARED_BYTES = 1024 + FLAG + 16;
  static_assert(WARP_M % 16 == 0 && WARP_N % 16 == 0 && C::TILE_K % (16 * C::WARPS_K) == 0 && C::STAGES >= 2);
  static_assert(A_BYTES % 1024 == 0 && STAGE_BYTES % 1024 == 0, "a tile begins where the swizzle begins");
};

template <class C, class E>
struct GemmMmaSync {
  using L = GemmMmaSyncLayout<C>;
  using In = typename C::In;
  using Out = typename C::Out;
  static constexpr int FRAGMENTS_M = L::WARP_M / 16, FRAGMENTS_N = L::WARP_N / 8;
  using Sums = float[FRAGMENTS_M][FRAGMENTS_N][4];

  const GemmArguments<E>& args;
  unsigned char* shared;
  uint32_t ring;

  static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }
  static __device__ __forceinline__ int warp_m() { return threadIdx.x / 32 % C::WARPS_M; }
  static __device__ __forceinline__ int warp_n() { return threadIdx.x / 32 / C::WARPS_M % C::WARPS_N; }
  static __device__ __forceinline__ int warp_k() { return threadIdx.x / 32 / (C::WARPS_M * C::WARPS_N); }

  // Copies ROWS x COLUMNS elements from (row, column) on; zeros where rows or columns end.
  template <int ROWS, int COLUMNS, int PANEL, int VECTOR>
  __device__ __forceinline__ void load(uint32_t to, const void* matrix, int64_t pitch, int row, int column, int rows,
                                       int columns) const {
    const In* const from = static_cast<const In*>(matrix);
#pragma unroll
    for (int i = threadIdx.x; i < ROWS * COLUMNS / VECTOR; i += L::THREADS) {
      const int r = i / (COLUMNS / VECTOR), c = i % (COLUMNS / VECTOR) * VECTOR;
      const bool inside = row + r < rows && column + c < columns;
      const In* const source = inside ? from + (row + r) * pitch + column + c : from;
      const uint32_t at = to + panel_offset<PANEL>(ROWS, r, c);
      if constexpr (VECTOR > 1) copy_async<2 * VECTOR>(at, source, inside);
      else store_shared(at, inside ? *reinterpret_cast<const uint16_t*>(source) : 0);
    }
  }
  __device__ __forceinline__ void load_stage(int stage, int m, int n, int slice) const {
    const uint32_t a = ring + stage * L::STAGE_BYTES, b = a + L::A_BYTES;
    const int k = slice * C::TILE_K;
    load<C::TILE_M, C::TILE_K, L::A_PANEL, C::VECTOR_A>(a, args.a, args.a_pitch, m, k, args.m, args.k);
    if constexpr (C::B_TRANSPOSED)
      load<C::TILE_N, C::TILE_K, L::B_PANEL, C::VECTOR_B>(b, args.b, args.b_pitch, n, k, args.n, args.k);
    else load<C::TILE_K, C::TILE_N, L::B_PANEL, C::VECTOR_B>(b, args.b, args.b_pitch, k, n, args.k, args.n);
  }

  __device__ __forceinline__ void multiply_stage(Sums& sums, int stage) const {
    const uint32_t a = ring + stage * L::STAGE_BYTES, b = a + L::A_BYTES;
    const int upper = lane() / 16 * 8, middle = lane() / 8 % 2 * 8, within = lane() % 8;
#pragma unroll
    for (int step = 0; step < C::TILE_K / 16 / C::WARPS_K; step++) {
      const int k = (step * C::WARPS_K + warp_k()) * 16;
      uint32_t left[FRAGMENTS_M][4], right[FRAGMENTS_N / 2][4];
#pragma unroll
      for (int i = 0; i < FRAGMENTS_M; i++)
        load_matrices<false>(left[i], a + panel_offset<L::A_PANEL>(C::TILE_M, warp_m() * L::WARP_M + i * 16 + middle + within,
                                                                   k + upper));
#pragma unroll
      for (int j = 0; j < FRAGMENTS_N / 2; j++) {
        const int n = warp_n() * L::WARP_N + j * 16;
        if constexpr (C::B_TRANSPOSED)
          load_matrices<false>(right[j], b + panel_offset<L::B_PANEL>(C::TILE_N, n + upper + within, k + middle));
        else load_matrices<true>(right[j], b + panel_offset<L::B_PANEL>(C::TILE_K, k + middle + within, n + upper));
      }
#pragma unroll
      for (int i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; j++)
          mma_16x8x16(sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1], In());
    }
  }

  __device__ __forceinline__ void multiply(Sums& sums, int m, int n, Slices slices) const {
#pragma unroll
    for (int s = 0; s < C::STAGES - 1; s++) {
      if (s < slices.count) load_stage(s, m, n, slices.first + s);
      copy_commit();
    }
    int stage = 0, next = C::STAGES - 1;
#pragma unroll 1
    for (int s = 0; s < slices.count; s++) {
      copy_wait<C::STAGES - 2>();
      __syncthreads();  // all copies of this stage have come; all have read the stage that is filled next
      if (s + C::STAGES - 1 < slices.count) load_stage(next, m, n, slices.first + s + C::STAGES - 1);
      copy_commit();
      multiply_stage(sums, stage);
      if (++stage == C::STAGES) stage = 0;
      if (++next == C::STAGES) next = 0;
    }
  }

  // The first warps along K add what the others have.
  __device__ __forceinline__ void add_warps(Sums& sums) const {
    if constexpr (C::WARPS_K > 1) {
      constexpr int VECTORS = FRAGMENTS_M * FRAGMENTS_N, OTHERS = 32 * C::WARPS_M * C::WARPS_N;
      float4* const kept = reinterpret_cast<float4*>(shared);
      const int thread = threadIdx.x % OTHERS;
      __syncthreads();  // the ring has been read
#pragma unroll
      for (int v = 0; v < VECTORS; v++) {
        const float(&x)[4] = sums[v / FRAGMENTS_N][v % FRAGMENTS_N];
        if (warp_k() > 0) kept[((warp_k() - 1) * VECTORS + v) * OTHERS + thread] = make_float4(x[0], x[1], x[2], x[3]);
      }
      __syncthreads();
      if (warp_k() > 0) return;
#pragma unroll
      for (int v = 0; v < VECTORS; v++) {
        float(&x)[4] = sums[v / FRAGMENTS_N][v % FRAGMENTS_N];
#pragma unroll
        for (int w = 0; w < C::WARPS_K - 1; w++) {
          const float4 y = kept[(w * VECTORS + v) * OTHERS + thread];
          x[0] += y.x, x[1] += y.y, x[2] += y.z, x[3] += y.w;
        }
      }
    }
  }

  // Split-K: the last block to come adds all parts, in their order. Tells whether it is this one.
  __device__ __forceinline__ bool add_parts(Sums& sums, int tile, int tiles, int part) const {
    constexpr int VECTORS = FRAGMENTS_M * FRAGMENTS_N, STORERS = 32 * C::WARPS_M * C::WARPS_N;
    int* const flag = reinterpret_cast<int*>(shared + L::FLAG);
    float4* const base = reinterpret_cast<float4*>(args.workspace + (tiles * 4 + 127) / 128 * 128);
    const auto sums_of = [&](int p) { return base + ((int64_t)tile * args.parts + p) * (VECTORS * STORERS) + threadIdx.x; };
    const bool stores = warp_k() == 0;
    if (stores) {
      float4* const to = sums_of(part);
#pragma unroll
      for (int v = 0; v < VECTORS; v++) {
        const float(&x)[4] = sums[v / FRAGMENTS_N][v % FRAGMENTS_N];
        __stcg(to + v * STORERS, make_float4(x[0], x[1], x[2], x[3]));
      }
      __threadfence();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int* const counter = reinterpret_cast<int*>(args.workspace) + tile;
      *flag = atomicAdd(counter, 1) == args.parts - 1;
      if (*flag) *counter = 0;  // for the next launch
      __threadfence();
    }
    __syncthreads();
    if (!*flag || !stores) return false;
#pragma unroll
    for (int v = 0; v < VECTORS; v++)
#pragma unroll
      for (int i = 0; i < 4; i++) sums[v / FRAGMENTS_N][v % FRAGMENTS_N][i] = 0.0f;
#pragma unroll 1
    for (int p = 0; p < args.parts; p++) {
      const float4* const from = sums_of(p);
#pragma unroll
      for (int v = 0; v < VECTORS; v++) {
        float(&x)[4] = sums[v / FRAGMENTS_N][v % FRAGMENTS_N];
        const float4 y = __ldcg(from + v * STORERS);
        x[0] += y.x, x[1] += y.y, x[2] += y.z, x[3] += y.w;
      }
    }
    return true;
  }

  __device__ __forceinline__ void store(const Sums& sums, int m, int n) const {
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
      for (int j = 0; j < FRAGMENTS_N; j++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
          const int row = m + warp_m() * L::WARP_M + i * 16 + half * 8 + lane() / 4;
          const int column = n + warp_n() * L::WARP_N + j * 8 + lane() % 4 * 2;
          store_pair<Out>(args, row, column, args.epilogue(sums[i][j][2 * half], row, column),
                          args.epilogue(sums[i][j][2 * half + 1], row, column + 1));
        }
  }

  __device__ __forceinline__ void run(unsigned char* dynamic) {
    shared = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024, ring = shared_address(shared);
    const int rows = ceil_div(args.m, C::TILE_M), columns = ceil_div(args.n, C::TILE_N), tiles = rows * columns;
    const int tile = blockIdx.x % tiles, part = blockIdx.x / tiles;
    const TilePlace place = raster(tile, rows, columns, args.group, args.along_n);
    const int m = place.row * C::TILE_M, n = place.column * C::TILE_N;
    Sums sums = {};
    let_next_launch_begin();
    wait_for_earlier_launches();
    multiply(sums, m, n, slices_of_part(ceil_div(args.k, C::TILE_K), args.parts, part));
    add_warps(sums);
    if constexpr (C::SPLIT_K)
      if (args.parts > 1) {
        if (add_parts(sums, tile, tiles, part)) store(sums, m, n);
        return;
      }
    if (warp_k() == 0) store(sums, m, n);
  }
};

}  // namespace ws::sm90
