// warpsmith-unit: 1
// Few long rows whose weight and bias are as long. Every block has the same part of each row, and its part of the weight and the bias
// in registers and shared memory. A row is read and added more than a row's length before it is written, so that nobody waits until all
// blocks have added theirs. Some steps of it stay in shared memory meanwhile; the others are read again from the L2 cache, which keeps
// about three quarters of a row of 16 MiB that long (`lab/second_reading.cu`).
// Blocks run all at once, one on each of the BLOCKS multiprocessors of an H100 or H200.
// family: norm   technique: echo
// tunable: GROUP = 256 {256}
// tunable: KEEP = 8 {8, 7, 6}
// tunable: HELD = 14 {14, 12}
// tunable: EARLY = 20 {20, 16, 24}
// tunable: LOADS = 8 {8, 6}
// tunable: LAST = 1 {1, 0}
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
constexpr int LINES = ws::ceil_div(PACKS, 32), STEPS = ws::ceil_div(ws::ceil_div(LINES, BLOCKS) * 32, GROUP);
constexpr int AHEAD = EARLY < STEPS ? EARLY : STEPS - 1;  // steps that a row is added before the one before it is written
constexpr int SOON = LOADS < STEPS + AHEAD ? LOADS : STEPS + AHEAD;  // steps that are asked for before they are needed
constexpr int SEEN = STEPS > 4 ? STEPS - 4 : 0;  // the step of a row at which the states for the next one are asked for
constexpr int IN_REGISTERS = HELD < STEPS ? HELD : STEPS;  // steps of the bias
// KEEP sixteenths of a row's steps stay, in between the others.
__host__ __device__ constexpr bool stays(int k) { return (k + 1) * KEEP / 16 > k * KEEP / 16; }
// The most among so many steps, one after the other, that stay, or that do not; one at least.
constexpr int most_of(int steps, bool staying) {
  int most = 1;
  for (int first = 0; first < STEPS; first++) {
    int count = 0;
    for (int i = 0; i < steps; i++) count += stays((first + i) % STEPS) == staying;
    most = count > most ? count : most;
  }
  return most;
}
constexpr int STAYING = most_of(STEPS + AHEAD + SOON, true), COMING = most_of(SOON, false);
constexpr int OF_BIAS = STEPS - IN_REGISTERS, SHARED = (OF_BIAS + STAYING + 2 * COMING) * GROUP * (int)sizeof(P);
static_assert(BLOCKS <= GROUP, "requires: a thread for each block's state");
static_assert(SHARED <= 226 * 1024, "requires: the bias, what stays and what comes in shared memory");

__device__ __forceinline__ int begins(int part) {
  const int pack = (int)((int64_t)LINES * part / BLOCKS) * 32;
  return pack < PACKS ? pack : PACKS;
}

// Places of a thread in shared memory, GROUP packs apart, one after the other and from the first one on again.
template <int FIRST, int COUNT>
struct Ring {
  int at = FIRST * GROUP;
  __device__ __forceinline__ int next() {
    const int now = at;
    at = now == (FIRST + COUNT - 1) * GROUP ? FIRST * GROUP : now + GROUP;
    return now;
  }
};
using Staying = Ring<OF_BIAS, STAYING>;
using Once = Ring<OF_BIAS + STAYING, COMING>;
using Again = Ring<OF_BIAS + STAYING + COMING, COMING>;

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

__global__ void __launch_bounds__(GROUP, 1) rows(const float* __restrict__ x, const float* __restrict__ weight,
    const float* __restrict__ bias, float* __restrict__ y, uint64_t* boxes) {
  const int slot = threadIdx.x, part = blockIdx.x, first = begins(part) + slot, high = begins(part + 1);
  P* const mine = (P*)ws::dynamic_shared() + slot;
  const auto there = [&](int k) { return k < STEPS - 1 || first + k * GROUP < high; };
  const auto row_of = [&](int row) { return x + (row * N + (int64_t)first * V); };
  Staying stay_in, stay_add, stay_out;
  Once once_in, once_add;
  Again again_in, again_out;
  // Step k of a row to be added, and of one that has been, to be written: what does not stay.
  const auto ask = [&](const float* row, int k, bool more) {
    const int to = stays(k) ? stay_in.next() : once_in.next();
    if (more && there(k)) ws::copy_hinted<sizeof(P), LAST != 0>(mine + to, row + (int64_t)k * GROUP * V, stays(k));
  };
  const auto ask_again = [&](const float* row, int k, bool more) {
    if (stays(k)) return;
    const int to = again_in.next();
    if (more && there(k)) ws::copy_hinted<sizeof(P)>(mine + to, row + (int64_t)k * GROUP * V, true);
  };
  float count = 0.0f;
  P scale[STEPS], held[IN_REGISTERS > 0 ? IN_REGISTERS : 1];
#pragma unroll
  for (int k = 0; k < STEPS; k++) {
    if (!there(k)) continue;
    const int64_t at = (int64_t)(first + k * GROUP) * V;
    scale[k] = ws::load_pack<V>(weight + at);
    if (k < IN_REGISTERS) held[k] = ws::load_pack<V>(bias + at);
    else ws::copy_hinted<sizeof(P)>(mine + (k - IN_REGISTERS) * GROUP, bias + at, true);
    count += V;
  }
  for (int t = 0; t < SOON; t++) {
    ask(row_of(t / STEPS), t % STEPS, t / STEPS < ROWS);
    ws::copy_commit();
  }
  Sums sums;
  int number = 0;
  const auto add = [&](int k) {
    const int from = stays(k) ? stay_add.next() : once_add.next();
    if (!there(k)) return;
    const P v = mine[from];
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
    ws::copy_wait<SOON - 1>();
    if (t / STEPS < ROWS) {
      add(t % STEPS);
      if (t % STEPS == STEPS - 1) post();
    }
    const int next = t + SOON, back = next - STEPS - AHEAD;  // steps to add and to write
    ask(row_of(next / STEPS), next % STEPS, next / STEPS < ROWS);
    if (back >= 0) ask_again(row_of(back / STEPS), back % STEPS, back / STEPS < ROWS);
    ws::copy_commit();
  }
  // What block `slot` posted is read some steps before it is needed, so that nobody waits for the L2 cache; if it was not there yet, again.
  uint64_t seen[WORDS] = {};
  const auto box = [&](int row) { return boxes + ((row + 1) % 2 * BLOCKS + slot) * WORDS; };
  const auto see = [&](int row) {
    if (slot >= BLOCKS || row >= ROWS) return;
    for (int i = 0; i < WORDS; i++) seen[i] = *(const volatile uint64_t*)(box(row) + i);
  };
  const auto gather = [&](int row) {
    ws::MomentsState all;
    if (slot < BLOCKS) all = ws::posted<ws::MomentsState>(box(row), row + 1, seen);
    ws::group_merge<GROUP>(all);
    return all;
  };
#pragma unroll 1
  for (int row = 0; row < ROWS; row++) {
    const ws::MomentsState all = gather(row);
    const float mean = all.mean, rate = ws::rsqrt(all.squares / (float)N + EPSILON);
    const float* const here = row_of(row);
    float* const to = y + (here - x);
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
      if (k == SEEN) see(row + 1);
      const int added = (k + AHEAD) % STEPS, after = k + AHEAD + SOON, back = k + SOON;
      ws::copy_wait<SOON - 1>();
      const int from = stays(k) ? stay_out.next() : again_out.next();
      if (there(k)) {
        const P v = mine[from], b = k < IN_REGISTERS ? held[k] : mine[(k - IN_REGISTERS) * GROUP];
        P made;
#pragma unroll
        for (int i = 0; i < V; i++) made.at[i] = (v.at[i] - mean) * rate * scale[k].at[i] + b.at[i];
        ws::write<V, 1, true, true>(to + (int64_t)k * GROUP * V, made);
      }
      const int a = 1 + after / STEPS, w = back / STEPS;
      if (row + 1 + (k + AHEAD) / STEPS < ROWS) {
        add(added);
        if (added == STEPS - 1) post();
      }
      ask(here + a * N, after % STEPS, row + a < ROWS);
      ask_again(here + w * N, back % STEPS, row + w < ROWS);
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
