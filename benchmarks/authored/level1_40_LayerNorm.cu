// warpsmith-unit: 1
// Few long rows whose weight and bias are as long. Every block has the same part of each row, its part of the weight in registers and
// of the bias in shared memory. A row is read and added more than a row's length before it is written, so that nobody waits until all
// blocks have added theirs, and read again from the L2 cache for the writing: no part of a row has to be kept.
// Blocks run all at once, one on each of the BLOCKS multiprocessors of an H100 or H200.
// family: norm   technique: echo
// tunable: GROUP = 512 {512, 384}
// tunable: EARLY = 8 {8, 4, 2, 1, 12}
// tunable: LAST = 1 {1, 0}
// tunable: RING = 4 {4, 3, 2}
// tunable: BLOCKS = 132 {132}
#define WORKSPACE_BYTES (BLOCKS * 2 * 3 * sizeof(uint64_t))
#include "task.h"
#include "warpsmith_cuda_meeting.h"
#include "warpsmith_cuda_resident.h"

// in0: rows; in1: weight, in2: bias, both of the shape of a row.
constexpr int64_t N = in1_numel;
constexpr int ROWS = (int)(in0_numel / N), V = N % 4 == 0 ? 4 : 1, PACKS = (int)(N / V), WORDS = 3;
constexpr float EPSILON = 1e-5f;
using P = ws::Pack<float, V>;
// Parts begin at multiples of 32 packs, and differ by 32 at the most: only the last step that has any packs may lack some.
constexpr int LINES = ws::ceil_div(PACKS, 32), FILLED = ws::ceil_div(ws::ceil_div(LINES, BLOCKS) * 32, GROUP);
constexpr int STEPS = ws::ceil_div(FILLED, RING) * RING;  // of a part, so that a step's place in a ring is known
constexpr int AHEAD = EARLY < STEPS ? EARLY : STEPS - 1;  // steps that a row is added before it is written
constexpr int SHARED = (STEPS + 2 * RING) * GROUP * (int)sizeof(P);
static_assert(SHARED <= 226 * 1024, "requires: a part of the bias and both rings in shared memory");

__device__ __forceinline__ int begins(int part) {
  const int pack = (int)((int64_t)LINES * part / BLOCKS) * 32;
  return pack < PACKS ? pack : PACKS;
}

// What a thread adds of a row: deviations from its first element, so that nothing cancels at any offset.
struct Sums {
  float shift = 0.0f, sum = 0.0f, squares = 0.0f;
  __device__ __forceinline__ void add(const P& v) {
#pragma unroll
    for (int i = 0; i < V; i++) {
      const float d = v.at[i] - shift;
      sum += d;
      squares += d * d;
    }
  }
  __device__ __forceinline__ ws::MomentsState moments(float count) const {
    ws::MomentsState all;
    if (count == 0.0f) return all;
    const float mean = sum / count;
    all.count = count, all.mean = shift + mean, all.squares = fmaxf(squares - sum * mean, 0.0f);
    return all;
  }
};

__global__ void __launch_bounds__(GROUP) rows(const float* __restrict__ x, const float* __restrict__ weight,
    const float* __restrict__ bias, float* __restrict__ y, uint64_t* boxes) {
  const int slot = threadIdx.x, part = blockIdx.x, first = begins(part) + slot, high = begins(part + 1);
  P* const kept = (P*)ws::dynamic_shared() + slot;
  P* const adds = kept + STEPS * GROUP;
  P* const writes = adds + RING * GROUP;
  const auto there = [&](int k) { return k < FILLED - 1 || first + k * GROUP < high; };
  const auto ask = [&](P* to, const float* row, int k, bool more, bool passing) {
    if (more && there(k)) ws::copy_hinted<sizeof(P), LAST != 0>(to, row + (int64_t)k * GROUP * V, passing);
  };
  const auto row_of = [&](int row) { return x + (row * N + (int64_t)first * V); };
  float count = 0.0f;
  P scale[STEPS];
#pragma unroll
  for (int k = 0; k < STEPS; k++) {
    if (!there(k)) continue;
    const int64_t at = (int64_t)(first + k * GROUP) * V;
    ws::copy_hinted<sizeof(P)>(kept + k * GROUP, bias + at, true);
    scale[k] = ws::load_pack<V>(weight + at);
    count += V;
  }
  for (int k = 0; k < RING; k++) {
    ask(adds + k * GROUP, row_of(k / STEPS), k % STEPS, k / STEPS < ROWS, false);
    ws::copy_commit();
  }
  Sums sums;
  int number = 0;
  const auto add = [&](int k, int place) {
    if (!there(k)) return;
    const P v = adds[place * GROUP];
    if (k == 0) sums.shift = v.at[0];
    sums.add(v);
  };
  const auto post = [&] {
    number++;
    ws::post_far<GROUP>(sums.moments(count), boxes + number % 2 * BLOCKS * WORDS, part, number);
    sums = {};
  };
#pragma unroll 1
  for (int t = 0; t < STEPS + AHEAD; t++) {
    ws::copy_wait<RING - 1>();
    if (t / STEPS < ROWS) {
      add(t % STEPS, t % RING);
      if (t % STEPS == STEPS - 1) post();
    }
    const int next = t + RING, back = next - STEPS - AHEAD;  // steps to add and to write
    ask(adds + t % RING * GROUP, row_of(next / STEPS), next % STEPS, next / STEPS < ROWS, false);
    if (back >= 0) ask(writes + back * GROUP, row_of(back / STEPS), back % STEPS, back / STEPS < ROWS, true);
    ws::copy_commit();
  }
#pragma unroll 1
  for (int row = 0; row < ROWS; row++) {
    const uint64_t* const posted = boxes + (row + 1) % 2 * BLOCKS * WORDS;
    const ws::MomentsState all = ws::gather_far<GROUP, ws::MomentsState>(posted, BLOCKS, row + 1);
    const float mean = all.mean, rate = ws::rsqrt(all.squares / (float)N + EPSILON);
    const float* const here = row_of(row);
    float* const to = y + (here - x);
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
      const int added = (k + AHEAD) % STEPS, after = k + AHEAD + RING, back = k + RING;
      ws::copy_wait<RING - 1>();
      if (there(k)) {
        const P v = writes[k % RING * GROUP], b = kept[k * GROUP];
        P made;
#pragma unroll
        for (int i = 0; i < V; i++) made.at[i] = (v.at[i] - mean) * rate * scale[k].at[i] + b.at[i];
        ws::write<V, 1, true, true>(to + (int64_t)k * GROUP * V, made);
      }
      if (row + 1 + (k + AHEAD) / STEPS < ROWS) {
        add(added, added % RING);
        if (added == STEPS - 1) post();
      }
      const int a = 1 + after / STEPS, w = back / STEPS;
      ask(adds + added % RING * GROUP, here + a * N, after % STEPS, row + a < ROWS, false);
      ask(writes + k % RING * GROUP, here + w * N, back % STEPS, row + w < ROWS, true);
      ws::copy_commit();
    }
  }
}

static void unit(const in0_t* x, const in1_t* weight, const in2_t* bias, out0_t* y, void* workspace, void* stream) {
  const cudaStream_t on = (cudaStream_t)stream;
  cudaFuncSetAttribute(rows, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
  cudaMemsetAsync(workspace, 0, WORKSPACE_BYTES, on);
  ws::launch_together(rows, BLOCKS, GROUP, SHARED, on, x, weight, bias, y, (uint64_t*)workspace);
}
