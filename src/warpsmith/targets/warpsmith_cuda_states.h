// What CUDA units of the memory-bound families are made of: packs of neighbouring elements, and what a reduction keeps
// while it runs, with merging over a warp, a block, or the threads above one column.
//
// A state is a struct of floats and integers with `add` (a pack of elements) and `merge` (another state). Merging is in
// a fixed order, so that a result does not depend on timing. Every thread of the group must take part.
#ifndef WARPSMITH_CUDA_STATES_H
#define WARPSMITH_CUDA_STATES_H
#include <string.h>
#include "warpsmith_cuda_math.h"

namespace ws {

// An integer that holds N.
template <bool SMALL>
struct Integer {
  using type = int32_t;
};
template <>
struct Integer<false> {
  using type = int64_t;
};
template <int64_t N>
using Int = typename Integer<(N < 0x7fffffff)>::type;

// A choice that is made when a unit is compiled, as an argument.
template <bool VALUE>
struct Flag {
  static constexpr bool value = VALUE;
};

// The largest power of two that divides n and is at most `most`.
constexpr int widest(int64_t n, int most) {
  while (n % most != 0) most /= 2;
  return most;
}

template <class T>
constexpr bool is_float = false;
template <>
inline constexpr bool is_float<float> = true;

// V neighbours STRIDE elements apart (0: one element for all); in one access where WHOLE says that they are aligned.
template <int V, int64_t STRIDE, bool WHOLE, class T>
__device__ __forceinline__ Pack<T, V> read(const T* p) {
  Pack<T, V> values;
  if constexpr (STRIDE == 1 && WHOLE) {
    values = load_pack<V>(p);
  } else if constexpr (STRIDE == 0 && is_float<T>) {  // read only: stores before it, which may be the same memory to nvcc, do not hold it up
    const T one = __ldg(p);
#pragma unroll
    for (int v = 0; v < V; v++) values.at[v] = one;
  } else {
#pragma unroll
    for (int v = 0; v < V; v++) values.at[v] = p[v * STRIDE];
  }
  return values;
}
// V neighbours of four bits, two in a byte; HIGH_FIRST: which of its halves is the first.
template <int V, bool HIGH_FIRST>
__device__ __forceinline__ Pack<uint8_t, V> split_nibbles(const Pack<uint8_t, V / 2>& bytes) {
  static_assert(V % 2 == 0, "a pack of whole bytes");
  Pack<uint8_t, V> values;
#pragma unroll
  for (int v = 0; v < V; v++) values.at[v] = (v % 2 != 0) != HIGH_FIRST ? bytes.at[v / 2] >> 4 : bytes.at[v / 2] & 15;
  return values;
}
template <int V, bool WHOLE, bool HIGH_FIRST>
__device__ __forceinline__ Pack<uint8_t, V> read_nibbles(const uint8_t* p) {
  return split_nibbles<V, HIGH_FIRST>(read<V / 2, 1, WHOLE>(p));
}
// STREAM: evict first, for what is not read again.
template <int V, int64_t STRIDE, bool WHOLE, bool STREAM, class T>
__device__ __forceinline__ void write(T* p, const Pack<T, V>& values) {
  if constexpr (STRIDE == 1 && WHOLE && STREAM && sizeof(Pack<T, V>) % 16 == 0) {
    uint4 bits[sizeof(Pack<T, V>) / 16];
    memcpy(bits, &values, sizeof bits);
#pragma unroll
    for (int i = 0; i < (int)(sizeof bits / 16); i++) __stcs(reinterpret_cast<uint4*>(p) + i, bits[i]);
  } else if constexpr (STRIDE == 1 && WHOLE && sizeof(Pack<T, V>) == 8) {  // nvcc makes two stores of a pack of two floats
    uint2 bits;
    memcpy(&bits, &values, sizeof bits);
    if constexpr (STREAM)
      __stcs(reinterpret_cast<uint2*>(p), bits);
    else
      *reinterpret_cast<uint2*>(p) = bits;
  } else if constexpr (STRIDE == 1 && WHOLE) {
    store_pack<V>(p, values);
  } else {
#pragma unroll
    for (int v = 0; v < V; v++) p[v * STRIDE] = values.at[v];
  }
}
template <class T>
__device__ __forceinline__ T narrowed(float x) { return store_as<T>(x); }
template <class T>
__device__ __forceinline__ T narrowed(bool x) { return (T)x; }
template <class T>
__device__ __forceinline__ T narrowed(int64_t x) { return (T)x; }

struct SumState {
  float value = 0.0f;
  template <int N>
  __device__ __forceinline__ void add(const float (&x)[N], int64_t) {
    float sum = x[0];
#pragma unroll
    for (int v = 1; v < N; v++) sum += x[v];
    value += sum;
  }
  __device__ __forceinline__ void merge(const SumState& other) { value += other.value; }
};
struct CountState {
  int64_t value = 0;
  template <int N>
  __device__ __forceinline__ void add(const float (&x)[N], int64_t) {
#pragma unroll
    for (int v = 0; v < N; v++) value += x[v] != 0.0f;
  }
  __device__ __forceinline__ void merge(const CountState& other) { value += other.value; }
};
struct ProdState {
  float value = 1.0f;
  template <int N>
  __device__ __forceinline__ void add(const float (&x)[N], int64_t) {
#pragma unroll
    for (int v = 0; v < N; v++) value *= x[v];
  }
  __device__ __forceinline__ void merge(const ProdState& other) { value *= other.value; }
};
// SIGN 1: maximum, -1: minimum. NAN_WINS as torch has it; without, a NaN may get lost.
template <int SIGN, bool NAN_WINS>
struct ExtremumState {
  float value = -SIGN * infinity;
  template <int N>
  __device__ __forceinline__ void add(const float (&x)[N], int64_t) {
#pragma unroll
    for (int v = 0; v < N; v++) take(x[v]);
  }
  __device__ __forceinline__ void merge(const ExtremumState& other) { take(other.value); }
  __device__ __forceinline__ void take(float x) {
    if constexpr (NAN_WINS) value = SIGN > 0 ? max_nan(x, value) : min_nan(x, value);
    else if (SIGN * x > SIGN * value) value = x;
  }
};
using MaxState = ExtremumState<1, true>;
using MinState = ExtremumState<-1, true>;
using FmaxState = ExtremumState<1, false>;

// The greatest and where it is; NaN above all; among equals the first. Chosen without branches, of which `&&` and `||` make several.
struct ArgmaxState {
  float value = -infinity;
  int32_t index = 0;  // of a row of nothing greater
  template <int N>
  __device__ __forceinline__ void add(const float (&x)[N], int64_t first) {
#pragma unroll
    for (int v = 0; v < N; v++) take(goes_before(x[v], (int32_t)first + v), x[v], (int32_t)first + v);
  }
  __device__ __forceinline__ void merge(const ArgmaxState& other) {
    take(goes_before(other.value, other.index), other.value, other.index);
  }
  __device__ __forceinline__ void take(bool it, float x, int32_t i) {
    value = it ? x : value;
    index = it ? i : index;
  }
  __device__ __forceinline__ bool greater(float x) const { return !(x <= value) & (value == value); }
  __device__ __forceinline__ bool goes_before(float x, int32_t i) const {
    const bool same = (x == value) | ((x != x) & (value != value));
    return greater(x) | (same & (i < index));
  }
};

// Of elements that come in order: half the instructions for each.
struct OrderedArgmaxState : ArgmaxState {
  template <int N>
  __device__ __forceinline__ void add(const float (&x)[N], int64_t first) {
#pragma unroll
    for (int v = 0; v < N; v++) take(greater(x[v]), x[v], (int32_t)first + v);
  }
};

// Count, mean and sum of squared deviations, merged as Chan, Golub and LeVeque (1979) do: no cancellation at any offset.
struct MomentsState {
  float count = 0.0f, mean = 0.0f, squares = 0.0f;
  template <int N>
  __device__ __forceinline__ void add(const float (&x)[N], int64_t) {
    float sum = 0.0f, own = 0.0f;
#pragma unroll
    for (int v = 0; v < N; v++) sum += x[v];
    const float middle = sum / N;
#pragma unroll
    for (int v = 0; v < N; v++) own += (x[v] - middle) * (x[v] - middle);
    merge((float)N, middle, own);
  }
  __device__ __forceinline__ void merge(const MomentsState& other) { merge(other.count, other.mean, other.squares); }
  __device__ __forceinline__ void merge(float more, float middle, float own) {
    const float all = count + more, share = all == 0.0f ? 0.0f : __fdividef(more, all), gap = middle - mean;
    mean += gap * share;
    squares += own + gap * (gap * (count * share));  // in this order: of no elements nothing, however large the gap
    count = all;
  }
};

// The largest value so far and the sum of exp(value - largest) (Milakov and Gimelshein, https://arxiv.org/abs/1805.02867).
// An infinite maximum counts as 0 in the sum, so that a row with +inf sums to inf, one of -inf only to 0.
struct SoftmaxState {
  float max = -infinity, sum = 0.0f;
  template <int N>
  __device__ __forceinline__ void add(const float (&x)[N], int64_t) {
    constexpr int SIDE = N % 4 == 0 ? 4 : 1;  // side by side, so that none waits for the one before
    float tops[SIDE];
#pragma unroll
    for (int v = 0; v < N; v++) tops[v % SIDE] = v < SIDE ? x[v] : fmaxf(tops[v % SIDE], x[v]);
    float top = tops[0];
#pragma unroll
    for (int v = 1; v < SIDE; v++) top = fmaxf(top, tops[v]);  // a NaN is lost here, not in the sum
    if (top > max) {
      sum *= exp_term(sub(max, top));
      max = top;
    }
    const float shift = fabsf(max) == infinity ? 0.0f : max;
    float sums[SIDE] = {};
#pragma unroll
    for (int v = 0; v < N; v++) sums[v % SIDE] += exp_term(sub(x[v], shift));
#pragma unroll
    for (int v = 0; v < SIDE; v++) sum += sums[v];
  }
  __device__ __forceinline__ void merge(const SoftmaxState& other) {
    const float above = max == other.max ? 0.0f : other.max - max, less = exp_term(-fabsf(above));
    sum = above > 0.0f ? sum * less + other.sum : sum + other.sum * less;
    max = fmaxf(max, other.max);
  }
};

// A row's values over all rows, in double: their sum ('+'), product ('*'), largest ('>') or least ('<').
template <char OP>
struct TotalState {
  double value = OP == '+' ? 0.0 : OP == '*' ? 1.0 : OP == '>' ? -(double)infinity : (double)infinity;
  __device__ __forceinline__ void merge(const TotalState& other) { take(other.value); }
  __device__ __forceinline__ void take(double x) {
    if constexpr (OP == '+') value += x;
    else if constexpr (OP == '*') value *= x;
    else if (x != x || (OP == '>' ? x > value : x < value)) value = x;
  }
};

// Whether two states merge to the same bits whichever comes first.
template <class State>
constexpr bool symmetric = false;
template <>
constexpr bool symmetric<SumState> = true;
template <>
constexpr bool symmetric<CountState> = true;
template <>
constexpr bool symmetric<ProdState> = true;
template <>
constexpr bool symmetric<SoftmaxState> = true;
// The states of this lane and of the one `lanes` away, merged to the same bits in both: the lower lane's comes first.
template <class State>
__device__ __forceinline__ void lanes_merge(State& state, int lanes) {
  constexpr int WORDS = sizeof(State) / 4;
  unsigned first[WORDS], second[WORDS];
  memcpy(first, &state, sizeof state);
  const bool upper = !symmetric<State> && threadIdx.x & lanes;
#pragma unroll
  for (int i = 0; i < WORDS; i++) {
    const unsigned other = __shfl_xor_sync(FULL, first[i], lanes);
    second[i] = upper ? first[i] : other;
    first[i] = upper ? other : first[i];
  }
  State later;
  memcpy(&state, first, sizeof state);
  memcpy(&later, second, sizeof later);
  state.merge(later);
}
template <int MEMBERS, class State>
__device__ __forceinline__ void warp_merge(State& state) {
#pragma unroll
  for (int lanes = MEMBERS / 2; lanes > 0; lanes /= 2) lanes_merge(state, lanes);
}
// Over the MEMBERS neighbouring threads of a row: a power of two within a warp, or the whole block.
template <int MEMBERS, class State>
__device__ __forceinline__ void group_merge(State& state) {
  warp_merge<(MEMBERS < WARP ? MEMBERS : WARP)>(state);
  if constexpr (MEMBERS > WARP) {
    constexpr int WARPS = MEMBERS / WARP, LANES = WARPS > 16 ? 32 : WARPS > 8 ? 16 : WARPS > 4 ? 8 : WARPS > 2 ? 4 : 2;
    __shared__ unsigned room[WARPS][sizeof(State) / 4];
    if (threadIdx.x % WARP == 0) memcpy(room[threadIdx.x / WARP], &state, sizeof state);
    __syncthreads();
    state = State();
    const int lane = threadIdx.x % LANES;
    if (lane < WARPS) memcpy(&state, room[lane], sizeof state);
    warp_merge<LANES>(state);
    __syncthreads();  // the room may be used again at once
  }
}
// To and from the workspace, `apart` words from one word of a state to the next.
template <class State>
__device__ __forceinline__ void save(unsigned* to, int64_t apart, const State& state) {
  unsigned words[sizeof(State) / 4];
  memcpy(words, &state, sizeof words);
  for (int i = 0; i < (int)(sizeof(State) / 4); i++) to[i * apart] = words[i];
}
template <class State>
__device__ __forceinline__ State load_state(const unsigned* from, int64_t apart) {
  unsigned words[sizeof(State) / 4];
  for (int i = 0; i < (int)(sizeof(State) / 4); i++) words[i] = from[i * apart];
  State state;
  memcpy(&state, words, sizeof words);
  return state;
}

// States of PLACES columns from each of HIGH threads, in a room for all of them: a thread's C columns begin at `place`.
template <int PLACES, int C, class State>
__device__ __forceinline__ void put_states(unsigned* room, const State (&states)[C], int slot, int place) {
  constexpr int WORDS = sizeof(State) / 4;
#pragma unroll
  for (int c = 0; c < C; c++) save(room + slot * WORDS * PLACES + place + c, PLACES, states[c]);
}
template <int HIGH, int PLACES, class State>
__device__ __forceinline__ State merged_states(const unsigned* room, int place) {
  State all;
  for (int d = 0; d < HIGH; d++) all.merge(load_state<State>(room + d * (sizeof(State) / 4) * PLACES + place, PLACES));
  return all;
}
// Over the HIGH threads above a column; SIDE columns side by side. `slot`: which of the HIGH, `column`: which of the SIDE.
template <int SIDE, int HIGH, class State>
__device__ __forceinline__ void column_merge(State& state, int slot, int column) {
  if constexpr (HIGH > 1) {
    __shared__ unsigned room[HIGH * (sizeof(State) / 4) * SIDE];
    const State own[] = {state};
    put_states<SIDE>(room, own, slot, column);
    __syncthreads();
    state = merged_states<HIGH, SIDE, State>(room, column);
    __syncthreads();
  }
}
// Merges them; returns that of the column at `first` and as many places on as this thread's number.
template <int HIGH, int PLACES, int C, class State>
__device__ __forceinline__ State places_merge(unsigned* room, const State (&states)[C], int slot, int place, int first) {
  put_states<PLACES>(room, states, slot, place);
  __syncthreads();
  State all;
  if (first + (int)threadIdx.x < PLACES) all = merged_states<HIGH, PLACES, State>(room, first + threadIdx.x);
  __syncthreads();  // the room may be used again at once
  return all;
}
// The same for whole packs, SIDE of them side by side: every thread gets its columns' states.
template <int HIGH, int SIDE, int C, class State>
__device__ __forceinline__ void packs_merge(unsigned* room, State (&states)[C], int slot, int lane) {
  constexpr int PLACES = SIDE * C;
  if constexpr (HIGH > 1) {
    put_states<PLACES>(room, states, slot, lane * C);
    __syncthreads();
    for (int i = threadIdx.x; i < PLACES; i += SIDE * HIGH) save(room + i, PLACES, merged_states<HIGH, PLACES, State>(room, i));
    __syncthreads();
#pragma unroll
    for (int c = 0; c < C; c++) states[c] = load_state<State>(room + lane * C + c, PLACES);
    __syncthreads();
  }
}

__device__ __forceinline__ unsigned char* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char memory[];
  return memory;
}

}  // namespace ws
#endif
