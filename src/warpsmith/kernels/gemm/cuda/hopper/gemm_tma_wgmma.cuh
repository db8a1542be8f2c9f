//! Persistent, warp-specialised GEMM (sm_90a wgmma). Tiles by TMA into a ring of 128-byte-swizzled stages, multicast in
//! clusters; one thread produces, one or two warpgroups multiply, together or in turns (ping-pong); static raster in groups;
//! split-K through DSMEM or a semaphore; stmatrix + TMA store. fp16 or bf16 factors, fp32 sums. Limit: 16-byte pitches.
#pragma once
#include "cluster.cuh"
#include "dependent_launch.cuh"
#include "gemm_epilogue.cuh"
#include "gemm_tma_wgmma_layout.cuh"
#include "row_staging.cuh"
#include "stmatrix.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

namespace ws::sm90 {

template <class C, class E>
struct GemmTmaWgmma {
  using L = GemmLayout<C>;
  using In = typename C::In;
  using Out = typename C::Out;
  using Sums = float[L::MMAS][C::TILE_N / 2];
  using Ring = RingPosition<C::STAGES>;
  static constexpr int CONSUMER_THREADS = 128 * C::CONSUMERS;
  // Named barriers: one for each warpgroup, one for each one's turn, one for all consumers.
  static constexpr int GROUP_BARRIER = 1, TURN_BARRIER = 3, CONSUMERS_BARRIER = 5;

  struct Shared {
    uint32_t ring, staging;  // shared addresses
    uint64_t *full, *empty;
    int* flags;  // of each warpgroup: it stores the tile
    float* partial;
  };
  struct Work {
    int row, column;  // of the left operand and of the right one
    int part, tile;
    Slices slices;
  };

  const CUtensorMap *left_map, *right_map, *result_map;
  const GemmArguments<E>& args;
  Shared shared;
  int rank;  // in the cluster

  // ---- schedule ----
  // The block's place among those that multicast; blocks along K share nothing but sums.
  __device__ __forceinline__ int down() const { return C::SPLIT == SPLIT_CLUSTER ? 0 : rank % C::CLUSTER_M; }
  __device__ __forceinline__ int over() const { return C::SPLIT == SPLIT_CLUSTER ? 0 : rank / C::CLUSTER_M; }
  __device__ __forceinline__ int rows() const { return C::SWAP_AB ? args.n : args.m; }
  __device__ __forceinline__ int columns() const { return C::SWAP_AB ? args.m : args.n; }
  __device__ __forceinline__ int cluster_rows() const { return ceil_div(rows(), C::TILE_M * C::CLUSTER_M); }
  __device__ __forceinline__ int cluster_columns() const { return ceil_div(columns(), C::TILE_N * C::CLUSTER_N); }
  __device__ __forceinline__ int parts() const { return C::SPLIT == NO_SPLIT ? 1 : args.parts; }
  __device__ __forceinline__ int cluster_tiles() const { return cluster_rows() * cluster_columns(); }
  __device__ __forceinline__ int works() const {
    return C::SPLIT == SPLIT_SEMAPHORE ? cluster_tiles() * parts() : cluster_tiles();
  }
  __device__ __forceinline__ int first_work() const {
    return blockIdx.x / (C::SPLIT == SPLIT_CLUSTER ? parts() : L::CLUSTER);
  }
  __device__ __forceinline__ int stride() const {
    return gridDim.x / (C::SPLIT == SPLIT_CLUSTER ? parts() : L::CLUSTER);
  }
  __device__ __forceinline__ Work work(int index) const {
    const int cluster_tile = C::SPLIT == SPLIT_SEMAPHORE ? index % cluster_tiles() : index;
    const TilePlace place = raster(cluster_tile, cluster_rows(), cluster_columns(), args.group, args.along_n);
    Work w;
    w.row = (place.row * C::CLUSTER_M + down()) * C::TILE_M;
    w.column = (place.column * C::CLUSTER_N + over()) * C::TILE_N;
    w.part = C::SPLIT == SPLIT_CLUSTER ? rank : C::SPLIT == SPLIT_SEMAPHORE ? index / cluster_tiles() : 0;
    w.tile = cluster_tile * L::CLUSTER + over() * C::CLUSTER_M + down();
    const int slices = ceil_div(args.k, C::TILE_K);
    w.slices = C::SPLIT == NO_SPLIT ? Slices{0, slices} : slices_of_part(slices, parts(), w.part);
    return w;
  }

  // ---- producer: one thread ----
  static __device__ __forceinline__ uint64_t policy(int hint) {
    return hint == L2_EVICT_FIRST ? l2_evict_first() : hint == L2_EVICT_LAST ? l2_evict_last() : l2_evict_normal();
  }
  // Loads this block's share of each panel; SHARERS blocks, whose bits are in `blocks`, get all shares.
  template <class Tile, bool MN_MAJOR, int SHARERS>
  __device__ __forceinline__ void load(uint32_t to, const CUtensorMap* map, uint64_t* barrier, int extent, int depth,
                                       int share, uint16_t blocks, uint64_t l2) const {
    constexpr int BOX_ROWS = Tile::PANEL_ROWS / SHARERS;
#pragma unroll
    for (int panel = 0; panel < Tile::PANELS; panel++) {
      const uint32_t at = to + panel * Tile::PANEL_BYTES + share * BOX_ROWS * Tile::PANEL * 2;
      const int inner = MN_MAJOR ? extent + panel * Tile::PANEL : depth + panel * Tile::PANEL;
      const int outer = (MN_MAJOR ? depth : extent) + share * BOX_ROWS;
      if constexpr (SHARERS > 1) tma_multicast_2d(at, map, barrier, inner, outer, blocks, l2);
      else tma_load_2d(at, map, barrier, inner, outer, l2);
    }
  }
  __device__ __forceinline__ void produce() const {
    uint16_t row_blocks = 0, column_blocks = 0;  // blocks with the same rows, with the same columns
    for (int i = 0; i < C::CLUSTER_N; i++) row_blocks |= 1 << (down() + C::CLUSTER_M * i);
    for (int i = 0; i < C::CLUSTER_M; i++) column_blocks |= 1 << (i + C::CLUSTER_M * over());
    const uint64_t left_l2 = policy(C::LEFT_HINT), right_l2 = policy(C::RIGHT_HINT);
    Ring ring;
    for (int index = first_work(); index < works(); index += stride()) {
      const Work w = work(index);
      for (int s = 0; s < w.slices.count; s++) {
        const int depth = (w.slices.first + s) * C::TILE_K;
        const uint32_t left = shared.ring + ring.stage * L::STAGE_BYTES;
        uint64_t* const full = shared.full + ring.stage;
        mbarrier_wait(shared.empty + ring.stage, ring.phase ^ 1);
        mbarrier_arrive_expect(full, L::STAGE_BYTES);
        load<typename L::Left, L::LEFT_MN_MAJOR, C::CLUSTER_N>(left, left_map, full, w.row, depth, over(), row_blocks, left_l2);
        load<typename L::Right, L::RIGHT_MN_MAJOR, C::CLUSTER_M>(left + L::Left::BYTES, right_map, full, w.column, depth,
                                                                  down(), column_blocks, right_l2);
        ring.advance();
      }
    }
  }

  // ---- consumers ----
  // This warp has read a stage: each block that writes into this block's stage learns it.
  __device__ __forceinline__ void release(int stage) const {
    const int lane = threadIdx.x % 32;
    if constexpr (L::CLUSTER == 1) {
      if (lane == 0) mbarrier_arrive(shared.empty + stage);
    } else {
      const bool shares = lane % C::CLUSTER_M == down() || lane / C::CLUSTER_M == over();
      if (lane < L::CLUSTER && shares) mbarrier_arrive_at(shared.empty + stage, lane);
    }
  }
  // The sums of `count` slices; `group` is the warpgroup's place in the tile, `self` its number.
  __device__ __forceinline__ void multiply(Sums& sums, Ring& ring, int count, int group, int self) const {
    const uint64_t left = L::Left::descriptor(shared.ring + L::Left::offset(group * L::GROUP_ROWS, 0));
    const uint64_t right = L::Right::descriptor(shared.ring + L::Left::BYTES);
    int previous = 0;
    if (count == 0) {
#pragma unroll
      for (int i = 0; i < L::MMAS; i++)
#pragma unroll
        for (int j = 0; j < C::TILE_N / 2; j++) sums[i][j] = 0.0f;
    }
#pragma unroll
    for (int i = 0; i < L::MMAS; i++) pin_registers(sums[i]);
#pragma unroll 1
    for (int s = 0; s < count; s++) {
      mbarrier_wait(shared.full + ring.stage, ring.phase);
      const uint64_t begin = (uint64_t)(ring.stage * L::STAGE_BYTES >> 4);
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < C::TILE_K / 16; step++)
#pragma unroll
        for (int i = 0; i < L::MMAS; i++)
          wgmma<In, C::TILE_N, L::LEFT_MN_MAJOR, L::RIGHT_MN_MAJOR>(
              sums[i], left + begin + (L::Left::offset(i * 64, step) >> 4), right + begin + (L::Right::offset(0, step) >> 4),
              step > 0 ? 1 : s);
      wgmma_commit();
      wgmma_wait<1>();
      if (s > 0) release(previous);
      previous = ring.stage;
      ring.advance();
    }
    if constexpr (C::PINGPONG) named_arrive(TURN_BARRIER + 1 - self, CONSUMER_THREADS);
    wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < L::MMAS; i++) pin_registers(sums[i]);
    if (count > 0) release(previous);
  }

  // The problem's coordinates of a sum, from those of the left and the right operand.
  __device__ __forceinline__ float finish(float sum, int row, int column) const {
    return args.epilogue(sum, C::SWAP_AB ? column : row, C::SWAP_AB ? row : column);
  }
  __device__ __forceinline__ uint32_t finish_pair(const float* two, int row, int column) const {
    return round_pair(finish(two[0], row, column), finish(two[1], row, column + 1), Out());
  }

  // ---- results by stmatrix and TMA ----
  // Writes box `box` of this warpgroup's tile to shared memory. (row, column): where the warpgroup's tile begins.
  template <int BOX>
  __device__ __forceinline__ void stage_box(uint32_t to, const Sums& sums, int row, int column) const {
    constexpr int PANELS = C::SWAP_AB ? 1 : C::TILE_N / L::STORE_WIDTH;
    constexpr int I = BOX / PANELS, FIRST = BOX % PANELS * (L::STORE_WIDTH / 8);  // wgmma, block of 8 columns
    constexpr int BLOCKS = C::SWAP_AB ? C::TILE_N / 8 : L::STORE_WIDTH / 8;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int of_row = row + I * 64 + warp * 16 + lane / 4;
#pragma unroll
    for (int block = 0; block < BLOCKS; block += 2) {
      uint32_t pairs[4];
#pragma unroll
      for (int matrix = 0; matrix < 4; matrix++) {  // rows 0 and 8 of one block of columns, then of the next
        const int j = FIRST + block + matrix / 2;
        pairs[matrix] = finish_pair(&sums[I][4 * j + matrix % 2 * 2], of_row + matrix % 2 * 8, column + j * 8 + lane % 4 * 2);
      }
      const int along = warp * 16 + lane / 8 % 2 * 8, across = (block + lane / 16) * 8;
      const uint32_t at = C::SWAP_AB ? swizzle<128>((across + lane % 8) * 128 + along * 2)
                                     : panel_offset<L::STORE_WIDTH>(64, along + lane % 8, across);
      store_matrices<C::SWAP_AB>(to + at, pairs);
    }
  }
  __device__ __forceinline__ void store_box(uint32_t staging, int box, int row, int column) const {
    constexpr int PANELS = C::SWAP_AB ? 1 : C::TILE_N / L::STORE_WIDTH;
    const int m = C::SWAP_AB ? column : row + box / PANELS * 64;
    const int n = C::SWAP_AB ? row + box * 64 : column + box % PANELS * L::STORE_WIDTH;
    if (m < args.m && n < args.n) tma_store_2d(result_map, staging + box % L::STAGED_BOXES * L::BOX_BYTES, n, m);
  }
  // Where not all boxes have a slot: a box waits for that which was in its slot, while the later ones are still being read.
  // Else, or with one slot: as many boxes as there are slots at a time.
  template <int BOX>
  __device__ __forceinline__ void store_boxes(uint32_t staging, const Sums& sums, int row, int column, int self) const {
    if constexpr (BOX < L::BOXES) {
      constexpr int SLOTS = L::STAGED_BOXES, SLOT = BOX % SLOTS;
      constexpr bool LAGGED = SLOTS > 1 && SLOTS < L::BOXES, LAST = SLOT == SLOTS - 1 || BOX == L::BOXES - 1;
      const bool leader = threadIdx.x % 128 == 0;
      if constexpr (BOX == 0 || (!LAGGED && SLOT == 0)) {
        if (leader) tma_store_wait_read<0>();
        named_sync(GROUP_BARRIER + self, 128);
      }
      stage_box<BOX>(staging + SLOT * L::BOX_BYTES, sums, row, column);
      if constexpr (LAGGED || LAST) {
        fence_async_proxy();
        if constexpr (LAGGED)
          if (leader) tma_store_wait_read<SLOTS - 2>();  // the next box's slot
        named_sync(GROUP_BARRIER + self, 128);
        if (leader) {
#pragma unroll
          for (int box = LAGGED ? BOX : BOX - SLOT; box <= BOX; box++) store_box(staging, box, row, column);
          tma_store_commit();
        }
      }
      store_boxes<BOX + 1>(staging, sums, row, column, self);
    }
  }

  // ---- results from registers, each with its own bounds ----
  static __device__ __forceinline__ void store_one(Out* to, float value) { *to = (Out)value; }
  __device__ __forceinline__ void store_registers(const Sums& sums, int row, int column) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
    for (int i = 0; i < L::MMAS; i++)
#pragma unroll
      for (int j = 0; j < C::TILE_N / 8; j++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
          const int r = row + i * 64 + warp * 16 + lane / 4 + half * 8, c = column + j * 8 + lane % 4 * 2;
          const float low = finish(sums[i][4 * j + 2 * half], r, c), high = finish(sums[i][4 * j + 2 * half + 1], r, c + 1);
          if constexpr (!C::SWAP_AB) store_pair<Out>(args, r, c, low, high);
          else {
            Out* const to = static_cast<Out*>(args.result) + c * args.pitch + r;
            if (r < args.n && c < args.m) store_one(to, low);
            if (r < args.n && c + 1 < args.m) store_one(to + args.pitch, high);
          }
        }
  }

  // ---- split-K by semaphore: the last warpgroup to come adds all parts, in their order ----
  __device__ __forceinline__ bool add_parts(Sums& sums, const Work& w, int group, int self) const {
    constexpr int VECTORS = L::MMAS * C::TILE_N / 8;
    const int thread = threadIdx.x % 128;
    int* const counter = args.counters + w.tile * L::GROUPS + group;
    const auto part = [&](int p) {
      return reinterpret_cast<float4*>(args.partial) +
             (((int64_t)w.tile * parts() + p) * L::GROUPS + group) * (VECTORS * 128) + thread;
    };
    float* const flat = &sums[0][0];
    float4* const to = part(w.part);
#pragma unroll
    for (int v = 0; v < VECTORS; v++)
      __stcg(to + v * 128, make_float4(flat[4 * v], flat[4 * v + 1], flat[4 * v + 2], flat[4 * v + 3]));
    __threadfence();
    named_sync(GROUP_BARRIER + self, 128);
    if (thread == 0) {
      const bool last = atomicAdd(counter, 1) == parts() - 1;
      if (last) *counter = 0;  // for the next launch
      __threadfence();
      shared.flags[self] = last;
    }
    named_sync(GROUP_BARRIER + self, 128);
    if (!shared.flags[self]) return false;
#pragma unroll
    for (int i = 0; i < 4 * VECTORS; i++) flat[i] = 0.0f;
#pragma unroll 1
    for (int p = 0; p < parts(); p++) {
      const float4* const from = part(p);
#pragma unroll
      for (int v = 0; v < VECTORS; v++) {
        const float4 x = __ldcg(from + v * 128);
        flat[4 * v] += x.x, flat[4 * v + 1] += x.y, flat[4 * v + 2] += x.z, flat[4 * v + 3] += x.w;
      }
    }
    return true;
  }

  // ---- split-K by cluster: each block adds and stores a share of the tile, read from all blocks' shared memory ----
  __device__ __forceinline__ void keep_partial(const Sums& sums, int group) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    named_sync(CONSUMERS_BARRIER, CONSUMER_THREADS);  // the ring has been read
#pragma unroll
    for (int i = 0; i < L::MMAS; i++)
#pragma unroll
      for (int j = 0; j < C::TILE_N / 8; j++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
          const int r = group * L::GROUP_ROWS + i * 64 + warp * 16 + lane / 4 + half * 8;
          *reinterpret_cast<float2*>(shared.partial + r * L::PARTIAL_PITCH + j * 8 + lane % 4 * 2) =
              make_float2(sums[i][4 * j + 2 * half], sums[i][4 * j + 2 * half + 1]);
        }
  }
  __device__ __forceinline__ void add_cluster(const Work& w) const {
    constexpr int ITEMS = C::TILE_M * C::TILE_N / 8;
    const int size = parts();
    for (int item = rank * CONSUMER_THREADS + threadIdx.x; item < ITEMS; item += size * CONSUMER_THREADS) {
      // Neighbours in a warp go along the result's rows.
      const int r = C::SWAP_AB ? item % C::TILE_M : item / (C::TILE_N / 8);
      const int c = 8 * (C::SWAP_AB ? item / C::TILE_M : item % (C::TILE_N / 8));
      const uint32_t own = shared_address(shared.partial + r * L::PARTIAL_PITCH + c);
      float eight[8] = {};
#pragma unroll 4
      for (int block = 0; block < size; block++) {
        const uint32_t from = map_shared(own, block);
        const float4 x = load_cluster(from), y = load_cluster(from + 16);
        eight[0] += x.x, eight[1] += x.y, eight[2] += x.z, eight[3] += x.w;
        eight[4] += y.x, eight[5] += y.y, eight[6] += y.z, eight[7] += y.w;
      }
      store_eight(eight, w.row + r, w.column + c);
    }
  }
  __device__ __forceinline__ void store_eight(float (&eight)[8], int row, int column) const {
#pragma unroll
    for (int i = 0; i < 8; i++) eight[i] = finish(eight[i], row, column + i);
    if constexpr (C::SWAP_AB) {
      Out* const to = static_cast<Out*>(args.result) + column * args.pitch + row;
#pragma unroll
      for (int i = 0; i < 8; i++)
        if (row < args.n && column + i < args.m) store_one(to + i * args.pitch, eight[i]);
    } else {
      if constexpr (sizeof(Out) == 2)
        if (row < args.m && column + 8 <= args.n && args.pitch % 8 == 0) {
          Out* const to = static_cast<Out*>(args.result) + row * args.pitch + column;
          *reinterpret_cast<uint4*>(to) =
              make_uint4(round_pair(eight[0], eight[1], Out()), round_pair(eight[2], eight[3], Out()),
                         round_pair(eight[4], eight[5], Out()), round_pair(eight[6], eight[7], Out()));
          return;
        }
#pragma unroll
      for (int i = 0; i < 8; i += 2) store_pair<Out>(args, row, column + i, eight[i], eight[i + 1]);
    }
  }

  __device__ __forceinline__ void consume() const {
    const int self = C::CONSUMERS == 1 ? 0 : threadIdx.x / 128, group = C::PINGPONG ? 0 : self;
    const uint32_t staging = shared.staging + self * L::GROUP_STAGING_BYTES;
    float* const own_staging = shared.partial + (L::RING_BYTES + self * L::GROUP_STAGING_BYTES) / 4;
    Sums sums;
    Ring ring;
    if constexpr (C::PINGPONG)
      if (self == 1) named_arrive(TURN_BARRIER, CONSUMER_THREADS);  // the first turn is the first warpgroup's
    int turn = 0;
    for (int index = first_work(); index < works(); index += stride()) {
      const Work w = work(index);
      if constexpr (C::PINGPONG) {
        const bool other = turn != self;
        turn ^= 1;
        if (other) {
          ring.advance(w.slices.count);
          continue;
        }
        named_sync(TURN_BARRIER + self, CONSUMER_THREADS);
      }
      multiply(sums, ring, w.slices.count, group, self);
      const int row = w.row + group * L::GROUP_ROWS;
      if constexpr (C::SPLIT == SPLIT_CLUSTER) {
        keep_partial(sums, group);
        cluster_sync();
        add_cluster(w);
        break;  // the ring holds sums now; a cluster has one tile
      }
      if constexpr (C::SPLIT == SPLIT_SEMAPHORE)
        if (parts() > 1 && !add_parts(sums, w, group, self)) continue;
      if constexpr (C::EPILOGUE_BYTES > 0) args.epilogue.store(sums, row, w.column, own_staging);
      else if constexpr (C::TMA_STORE) store_boxes<0>(staging, sums, row, w.column, self);
      else store_registers(sums, row, w.column);
    }
    if constexpr (C::TMA_STORE)
      if (threadIdx.x % 128 == 0) tma_store_wait_read<0>();
  }

  // ---- both ----
  __device__ __forceinline__ void begin(unsigned char* dynamic) {
    unsigned char* const ring = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
    shared.ring = shared_address(ring), shared.staging = shared.ring + L::RING_BYTES;
    shared.partial = reinterpret_cast<float*>(ring);
    shared.full = reinterpret_cast<uint64_t*>(ring + L::RING_BYTES + L::STAGING_BYTES);
    shared.empty = shared.full + C::STAGES;
    shared.flags = reinterpret_cast<int*>(shared.empty + C::STAGES);
    rank = L::CLUSTER > 1 || C::SPLIT == SPLIT_CLUSTER ? cluster_rank() : 0;
    if (threadIdx.x == 0) {
      tma_prefetch_map(left_map), tma_prefetch_map(right_map);
      if (C::TMA_STORE) tma_prefetch_map(result_map);
      for (int s = 0; s < C::STAGES; s++)
        mbarrier_init(shared.full + s, 1), mbarrier_init(shared.empty + s, L::EMPTY_ARRIVALS);
      mbarrier_init_fence();
    }
    if constexpr (L::CLUSTER > 1) cluster_meet();
    else __syncthreads();
    let_next_launch_begin();
    wait_for_earlier_launches();
  }
  __device__ __forceinline__ void run(unsigned char* dynamic) {
    begin(dynamic);
    // No block leaves while others may still arrive at its barriers or read its sums.
    constexpr bool LEAVE_TOGETHER = L::CLUSTER > 1 || C::SPLIT == SPLIT_CLUSTER;
    if (threadIdx.x >= CONSUMER_THREADS) {
      if constexpr (C::PRODUCER_WARPS == 4) registers_decrease<C::PRODUCER_REGISTERS>();
      if (threadIdx.x / 32 == CONSUMER_THREADS / 32 && elect_one()) produce();
      __syncwarp();
      if constexpr (C::SPLIT == SPLIT_CLUSTER) cluster_sync();  // the consumers' sums are kept
      if constexpr (LEAVE_TOGETHER) cluster_meet();
    } else {
      if constexpr (C::PRODUCER_WARPS == 4) registers_increase<C::CONSUMER_REGISTERS>();
      consume();
      if constexpr (LEAVE_TOGETHER) cluster_meet();
    }
  }
};

}  // namespace ws::sm90
