//! FlashAttention-3 on Hopper by wgmma (https://arxiv.org/abs/2407.08608): a block has QUERIES rows of one head, 64 a consumer warpgroup; a producer warpgroup copies tiles of
//! KEYS keys and values by cp.async through STAGES stages of swizzled shared memory. Scores, the online softmax and the sums stay in registers; weights become the left factor of
//! the second product there, which runs during the softmax of the next tile. With PING_PONG consumers issue their products in turns. fp16 or bf16 factors, fp32 sums. Values: types, sizes and strides, indices of a head, the scale, the score's chain.
constexpr int GROUPS = QUERIES / 64, THREADS = 128 * (GROUPS + 1), TILES_M = 1;
$common
constexpr int PANEL = 64;  // features of a row of 128 bytes
constexpr int QUERY_PANEL = QUERIES * 128, KEY_PANEL = KEYS * 128;
constexpr int DEPTH_PANELS = (PADDED_DEPTH + PANEL - 1) / PANEL, OUT_PANELS = (PADDED_OUT + PANEL - 1) / PANEL;
constexpr int QUERY_BYTES = DEPTH_PANELS * QUERY_PANEL, KEY_BYTES = DEPTH_PANELS * KEY_PANEL, VALUE_BYTES = OUT_PANELS * KEY_PANEL;
constexpr int BARRIERS = 1 + 4 * STAGES;
constexpr int SHARED = 1024 + QUERY_BYTES + STAGES * (KEY_BYTES + VALUE_BYTES) + 8 * BARRIERS;
// What launches of so many threads leave a consumer when the producer has given its registers back.
constexpr int PRODUCER_REGISTERS = GROUPS == 3 ? 32 : 40, CONSUMER_REGISTERS = GROUPS == 3 ? 160 : 232;
static_assert(QUERIES % 64 == 0 && GROUPS >= 1 && GROUPS <= 3 && (KEYS == 64 || KEYS == 128) && STAGES >= 1, "whole tiles");

// COUNT rows from `first` on, to a tile; zeros beyond the last row and beyond FEATURES. All of the producer, which shares the issue slots of the consumers: where all
// elements are there, a copy is one instruction.
template <int COUNT, int64_t FEATURES, int PADDED, int V, int64_t ROW_STRIDE, int64_t STRIDE>
__device__ __forceinline__ void copy_rows(unsigned char* to, const half_t* from, int first, int rows) {
  constexpr int PER_ROW = PADDED / V, LINES = PER_ROW < 128 ? 128 / PER_ROW : 1;  // copies of a row; rows at once
  const int thread = threadIdx.x % 128, line = thread / PER_ROW;
  if (LINES * PER_ROW < 128 && line >= LINES) return;
  if (V == 8 && PADDED == FEATURES && COUNT % LINES == 0 && first + COUNT <= rows) {
    const int column = thread % PER_ROW * V;
    const half_t* const source = from + (first + line) * ROW_STRIDE + column;
#pragma unroll
    for (int r = 0; r < COUNT; r += LINES) ws::copy_async<16>(to + ws::tile_place<COUNT>(line + r, column), source + r * ROW_STRIDE, true);
    return;
  }
  for (int pack = thread % PER_ROW; pack < PER_ROW; pack += 128) {
    const int column = pack * V;
    const half_t* const source = from + (first + line) * ROW_STRIDE + column * STRIDE;
#pragma unroll 4
    for (int r = 0; r < COUNT; r += LINES) {
      if (COUNT % LINES != 0 && line + r >= COUNT) break;
      unsigned char* const target = to + ws::tile_place<COUNT>(line + r, column);
      const bool there = first + line + r < rows && column < FEATURES;
      if constexpr (V > 1) ws::copy_async<2 * V>(target, source + r * ROW_STRIDE, there);
      else *reinterpret_cast<half_t*>(target) = there ? source[r * ROW_STRIDE] : ws::store_as<half_t>(0.0f);
    }
  }
}
// Tells that this thread's elements of a tile are there, or will be.
template <int V>
__device__ __forceinline__ void fill(ws::Barrier* full) {
  if constexpr (V > 1) ws::copy_arrive(full);
  else ws::shared_stored(), ws::barrier_arrive(full);
}

// A place in a ring of stages, and how often the ring has been gone round.
struct Ring {
  int stage = 0, phase = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == STAGES) stage = 0, phase ^= 1;
  }
};
struct Shared {
  unsigned char *queries, *keys, *values;
  ws::Barrier *queries_full, *keys_full, *keys_empty, *values_full, *values_empty;
};

__device__ __forceinline__ void issue_scores(const Shared& shared, Scores& scores, Ring ring, int group) {
  ws::barrier_wait(shared.keys_full + ring.stage, ring.phase);
  ws::shared_stored();  // by copies, which wgmma is to see
  const uint64_t queries = ws::tile_descriptor(shared.queries + group * (64 * 128)), keys = ws::tile_descriptor(shared.keys + ring.stage * KEY_BYTES);
  float(&flat)[KEYS / 2] = reinterpret_cast<float(&)[KEYS / 2]>(scores);
  ws::products_begin();
#pragma unroll
  for (int step = 0; step < PADDED_DEPTH / 16; step++)
    ws::wgmma_ss<half_t, KEYS>(flat, queries + ((step / 4 * QUERY_PANEL + step % 4 * 32) >> 4), keys + ((step / 4 * KEY_PANEL + step % 4 * 32) >> 4), step > 0);
  ws::products_commit();
}
typedef uint32_t Weights[PARTS][KEYS / 16][4];
__device__ __forceinline__ void issue_values(const Shared& shared, Sums& sums, const Weights& weights, Ring ring) {
  ws::barrier_wait(shared.values_full + ring.stage, ring.phase);
  ws::shared_stored();
  const uint64_t values = ws::columns_descriptor(shared.values + ring.stage * VALUE_BYTES, KEY_PANEL);
  float(&flat)[PADDED_OUT / 2] = reinterpret_cast<float(&)[PADDED_OUT / 2]>(sums);
  ws::products_begin();
#pragma unroll
  for (int step = 0; step < KEYS / 16; step++)
#pragma unroll
    for (int p = PARTS - 1; p >= 0; p--) ws::wgmma_rs<half_t, PADDED_OUT>(flat, weights[p][step], values + step * (16 * 128 >> 4));
  ws::products_commit();
}
__device__ __forceinline__ void pack_weights(Weights& weights, const Scores& scores) {
#pragma unroll
  for (int step = 0; step < KEYS / 16; step++)
#pragma unroll
    for (int i = 0; i < 4; i++) {
      uint32_t parts[PARTS];
      pack_parts(parts, scores[0][2 * step + i / 2] + i % 2 * 2);
#pragma unroll
      for (int p = 0; p < PARTS; p++) weights[p][step][i] = parts[p];
    }
}
// One consumer issues products at a time, while the others are at their softmax. `last`: nobody waits for the turn that the last consumer would hand over.
constexpr int FIRST_TURN = 8;
__device__ __forceinline__ void take_turn(int group) {
  if constexpr (PING_PONG && GROUPS > 1) ws::named_sync(FIRST_TURN + group, 256);
}
__device__ __forceinline__ void hand_turn_over(int group, bool last) {
  if constexpr (PING_PONG && GROUPS > 1)
    if (group < GROUPS - 1 || !last) ws::named_arrive(FIRST_TURN + (group + 1) % GROUPS, 256);
}
__device__ __forceinline__ void release(ws::Barrier* empty) {
  if (threadIdx.x % 32 == 0) ws::barrier_arrive(empty);
}

__global__ void __launch_bounds__(THREADS, 1) attend(Operands o) {
  unsigned char* const memory = ws::aligned_shared<1024>(ws::dynamic_shared());
  Shared shared;
  shared.queries = memory, shared.keys = memory + QUERY_BYTES, shared.values = shared.keys + STAGES * KEY_BYTES;
  shared.queries_full = reinterpret_cast<ws::Barrier*>(shared.values + STAGES * VALUE_BYTES);
  shared.keys_full = shared.queries_full + 1, shared.keys_empty = shared.keys_full + STAGES;
  shared.values_full = shared.keys_empty + STAGES, shared.values_empty = shared.values_full + STAGES;
  if (threadIdx.x == 0) {
    ws::barrier_init(shared.queries_full, 128);
    for (int s = 0; s < STAGES; s++) {
      ws::barrier_init(shared.keys_full + s, 128), ws::barrier_init(shared.values_full + s, 128);
      ws::barrier_init(shared.keys_empty + s, 4 * GROUPS), ws::barrier_init(shared.values_empty + s, 4 * GROUPS);
    }
    ws::barrier_ready();
  }
  __syncthreads();
  $head
  const int group = threadIdx.x / 128;
  Ring ring;
  if (group == GROUPS) {
    if constexpr (GROUPS > 1) ws::registers_less<PRODUCER_REGISTERS>();
    copy_rows<QUERIES, DEPTH, PADDED_DEPTH, QUERY_VEC, $query_strides>(shared.queries, queries, first_row, (int)ROW_COUNT);
    fill<QUERY_VEC>(shared.queries_full);
#pragma unroll 1
    for (int tile = 0; tile < tiles; tile++, ring.advance()) {
      const int key = (int)seen_begin + tile * KEYS;
      ws::barrier_wait(shared.keys_empty + ring.stage, ring.phase ^ 1);
      copy_rows<KEYS, DEPTH, PADDED_DEPTH, KEY_VEC, $key_strides>(shared.keys + ring.stage * KEY_BYTES, keys, key, (int)KEY_COUNT);
      fill<KEY_VEC>(shared.keys_full + ring.stage);
      ws::barrier_wait(shared.values_empty + ring.stage, ring.phase ^ 1);
      copy_rows<KEYS, WIDTH_OUT, PADDED_OUT, VALUE_VEC, $value_strides>(shared.values + ring.stage * VALUE_BYTES, values, key, (int)KEY_COUNT);
      fill<VALUE_VEC>(shared.values_full + ring.stage);
    }
    ws::copy_commit();
    ws::copy_wait<0>();
    return;
  }
  if constexpr (GROUPS > 1) ws::registers_more<CONSUMER_REGISTERS>();
  const int lane = threadIdx.x % 32, warp_row = first_row + (int)threadIdx.x / 32 * 16;
  Sums sums = {};
  Softmax state;
#pragma unroll
  for (int half = 0; half < 2; half++) state.max[0][half] = -INFINITY, state.norm[0][half] = 0.0f;
  if (tiles > 0) {
    Scores scores;
    Weights weights;
    float rescale[1][2];
    ws::barrier_wait(shared.queries_full, 0);
    if (group == GROUPS - 1) hand_turn_over(group, false);  // to the first one
    take_turn(group);
    issue_scores(shared, scores, ring, group);
    hand_turn_over(group, tiles == 1);
    ws::products_left<0>();
    ws::sums_done(reinterpret_cast<float(&)[KEYS / 2]>(scores));
    release(shared.keys_empty + ring.stage);
    prepare_scores(o, scores, score_at, sign, warp_row, (int)seen_begin);
    weigh(scores, rescale, state, factor);
    pack_weights(weights, scores);
#pragma unroll 1
    for (int tile = 1; tile < tiles; tile++) {
      const Ring last = ring;
      ring.advance();
      take_turn(group);
      issue_scores(shared, scores, ring, group);
      issue_values(shared, sums, weights, last);
      hand_turn_over(group, tile == tiles - 1);
      ws::products_left<1>();
      ws::sums_done(reinterpret_cast<float(&)[KEYS / 2]>(scores));
      release(shared.keys_empty + ring.stage);
      prepare_scores(o, scores, score_at, sign, warp_row, (int)seen_begin + tile * KEYS);
      weigh(scores, rescale, state, factor);
      ws::products_left<0>();
      ws::sums_done(reinterpret_cast<float(&)[PADDED_OUT / 2]>(sums));
      release(shared.values_empty + last.stage);
      scale_sums(sums, rescale);
      pack_weights(weights, scores);
    }
    issue_values(shared, sums, weights, ring);
    ws::products_left<0>();
    ws::sums_done(reinterpret_cast<float(&)[PADDED_OUT / 2]>(sums));
  }
  store_sums(o, sums, state, out_at, warp_row + lane / 4);
}
