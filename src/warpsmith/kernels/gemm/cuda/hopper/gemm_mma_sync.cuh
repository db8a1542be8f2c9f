//! GEMM with small tiles (sm_80 mma.sync). cp.async into a ring of swizzled stages, ldmatrix, m16n8k16; a tile a block, warps
//! along M, N and K; split-K by semaphore. fp16 or bf16 factors, fp32 sums, any sizes. For products that one wave finishes.
#pragma once
#include <type_traits>

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

  // This thread's share of the copies of ROWS x COLUMNS elements: one column of vectors, each STEP-th row of it.
  template <int ROWS, int COLUMNS, int PANEL, int VECTOR>
  struct TileCopy {
    static constexpr int PER_ROW = COLUMNS / VECTOR, STEP = L::THREADS / PER_ROW;
    static_assert(L::THREADS % PER_ROW == 0, "a thread keeps its column");
    const In* from;
    int64_t pitch;
    int row, column, rows, columns;  // its first vector; where the matrix ends

    __device__ __forceinline__ TileCopy(const void* matrix, int64_t pitch, int first_row, int first_column, int rows, int columns)
        : pitch(pitch), row(first_row + (int)threadIdx.x / PER_ROW), column(first_column + (int)threadIdx.x % PER_ROW * VECTOR),
          rows(rows), columns(columns) {
      from = static_cast<const In*>(matrix) + row * pitch + column;
    }
    __device__ __forceinline__ void copy(uint32_t tile) const {
#pragma unroll
      for (int r = 0; r < ROWS; r += STEP) {
        const int in_tile = (int)threadIdx.x / PER_ROW + r;
        if (ROWS % STEP != 0 && in_tile >= ROWS) break;
        const bool inside = row + r < rows && column < columns;
        const In* const source = from + r * pitch;
        const uint32_t at = tile + panel_offset<PANEL>(ROWS, in_tile, (int)threadIdx.x % PER_ROW * VECTOR);
        if constexpr (VECTOR > 1) copy_async<2 * VECTOR>(at, source, inside);  // reads nothing outside
        else store_shared(at, inside ? *reinterpret_cast<const uint16_t*>(source) : 0);
      }
    }
    __device__ __forceinline__ void move_down() { row += ROWS, from += ROWS * pitch; }
    __device__ __forceinline__ void move_right() { column += COLUMNS, from += COLUMNS; }
  };
  using CopyA = TileCopy<C::TILE_M, C::TILE_K, L::A_PANEL, C::VECTOR_A>;
  using CopyB = std::conditional_t<C::B_TRANSPOSED, TileCopy<C::TILE_N, C::TILE_K, L::B_PANEL, C::VECTOR_B>,
                                   TileCopy<C::TILE_K, C::TILE_N, L::B_PANEL, C::VECTOR_B>>;
  // Copies the next slice of both factors.
  __device__ __forceinline__ void load_stage(int stage, CopyA& a, CopyB& b) const {
    a.copy(ring + stage * L::STAGE_BYTES);
    b.copy(ring + stage * L::STAGE_BYTES + L::A_BYTES);
    a.move_right();
    if constexpr (C::B_TRANSPOSED) b.move_right();
    else b.move_down();
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
    const int k = slices.first * C::TILE_K;
    CopyA a(args.a, args.a_pitch, m, k, args.m, args.k);
    CopyB b(args.b, args.b_pitch, C::B_TRANSPOSED ? n : k, C::B_TRANSPOSED ? k : n, C::B_TRANSPOSED ? args.n : args.k,
            C::B_TRANSPOSED ? args.k : args.n);
#pragma unroll
    for (int s = 0; s < C::STAGES - 1; s++) {
      if (s < slices.count) load_stage(s, a, b);
      copy_commit();
    }
    int stage = 0, next = C::STAGES - 1;
#pragma unroll 1
    for (int s = 0; s < slices.count; s++) {
      copy_wait<C::STAGES - 2>();
      __syncthreads();  // all copies of this stage have come; all have read the stage that is filled next
      if (s + C::STAGES - 1 < slices.count) load_stage(next, a, b);
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
  __device__ __forceinline__ bool add_parts(Sums& sums, int tile, int part) const {
    constexpr int VECTORS = FRAGMENTS_M * FRAGMENTS_N, STORERS = 32 * C::WARPS_M * C::WARPS_N;
    int* const flag = reinterpret_cast<int*>(shared + L::FLAG);
    const auto sums_of = [&](int p) {
      return reinterpret_cast<float4*>(args.partial) + ((int64_t)tile * args.parts + p) * (VECTORS * STORERS) + threadIdx.x;
    };
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
      int* const counter = args.counters + tile;
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

  // Four lanes that hold two columns each of four blocks of 8 columns: lane t gets all of block t.
  static __device__ __forceinline__ uint4 gather_block(const uint32_t (&pairs)[4]) {
    const bool odd = lane() & 1, upper = lane() & 2;
    uint32_t low[2], high[2];  // of block 0 or 1, and of 2 or 3: columns of the even lane, of the odd one
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const uint32_t kept = odd ? pairs[2 * i + 1] : pairs[2 * i], sent = odd ? pairs[2 * i] : pairs[2 * i + 1];
      const uint32_t got = __shfl_xor_sync(0xffffffff, sent, 1);
      low[i] = odd ? got : kept, high[i] = odd ? kept : got;
    }
    const uint32_t low_kept = upper ? low[1] : low[0], high_kept = upper ? high[1] : high[0];
    const uint32_t low_got = __shfl_xor_sync(0xffffffff, upper ? low[0] : low[1], 2);
    const uint32_t high_got = __shfl_xor_sync(0xffffffff, upper ? high[0] : high[1], 2);
    return upper ? make_uint4(low_got, high_got, low_kept, high_kept) : make_uint4(low_kept, high_kept, low_got, high_got);
  }
  // Results of one fragment's row: lane t of four has columns 2 t, 2 t + 1 of each block of 8.
  __device__ __forceinline__ void store_pairs(const float (&sums)[FRAGMENTS_N][4], int half, int row, int left) const {
#pragma unroll
    for (int j = 0; j < FRAGMENTS_N; j++) {
      const int column = left + j * 8 + lane() % 4 * 2;
      store_pair<Out>(args, row, column, args.epilogue(sums[j][2 * half], row, column),
                      args.epilogue(sums[j][2 * half + 1], row, column + 1));
    }
  }
  // The same where all columns are inside and aligned: 16 bytes a lane, 64 a row.
  __device__ __forceinline__ void store_blocks(const float (&sums)[FRAGMENTS_N][4], int half, int row, int left) const {
#pragma unroll
    for (int j = 0; j < FRAGMENTS_N; j += 4) {
      uint32_t pairs[4];
#pragma unroll
      for (int b = 0; b < 4; b++) {
        const int column = left + (j + b) * 8 + lane() % 4 * 2;
        pairs[b] = round_pair(args.epilogue(sums[j + b][2 * half], row, column),
                              args.epilogue(sums[j + b][2 * half + 1], row, column + 1), Out());
      }
      const uint4 block = gather_block(pairs);
      Out* const to = static_cast<Out*>(args.result) + row * args.pitch + left + (j + lane() % 4) * 8;
      if (row < args.m) *reinterpret_cast<uint4*>(to) = block;
    }
  }
  __device__ __forceinline__ void store(const Sums& sums, int m, int n) const {
    const int left = n + warp_n() * L::WARP_N;
    const bool whole = args.pitch % 8 == 0 && left + L::WARP_N <= args.n;
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int row = m + warp_m() * L::WARP_M + i * 16 + half * 8 + lane() / 4;
        if constexpr (sizeof(Out) == 2 && FRAGMENTS_N % 4 == 0)
          if (whole) {
            store_blocks(sums[i], half, row, left);
            continue;
          }
        store_pairs(sums[i], half, row, left);
      }
  }

  __device__ __forceinline__ void run(unsigned char* dynamic) {
    shared = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024, ring = shared_address(shared);
    // The grid is rows x columns x parts, so that nothing is divided before the first copy.
    const int tile = blockIdx.x * gridDim.y + blockIdx.y, part = blockIdx.z;
    const int m = blockIdx.x * C::TILE_M, n = blockIdx.y * C::TILE_N, slices = ceil_div(args.k, C::TILE_K);
    Sums sums = {};
    let_next_launch_begin();
    wait_for_earlier_launches();
    multiply(sums, m, n, C::SPLIT_K && args.parts > 1 ? slices_of_part(slices, args.parts, part) : Slices{0, slices});
    add_warps(sums);
    if constexpr (C::SPLIT_K)
      if (args.parts > 1) {
        if (add_parts(sums, tile, part)) store(sums, m, n);
        return;
      }
    if (warp_k() == 0) store(sums, m, n);
  }
};

}  // namespace ws::sm90
