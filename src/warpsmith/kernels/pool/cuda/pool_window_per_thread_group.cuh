//! Pooling with a window per thread group: GROUP threads share a window of any size and reduce by shuffles; packs along
//! channels for NHWC; fixed or adaptive windows, positions of maxima on request.
// A window along one dimension: where it begins, and how many taps it has.
struct Taps {
  int64_t first;
  int count;
};
template <bool FREE>
__device__ __forceinline__ Taps taps(int64_t o, int64_t size, int64_t made, int kernel, int stride, int padding) {
  const int64_t first = FREE ? o * size / made : o * stride - padding;
  return {first, FREE ? (int)(((o + 1) * size + made - 1) / made - first) : kernel};
}
using Values = ws::Pack<float, V>;
__global__ void __launch_bounds__(BLOCK) pool(Operands o) {
  const index_t number = ((index_t)blockIdx.x * BLOCK + threadIdx.x) / GROUP;
  const int slot = threadIdx.x % GROUP;
  const bool mine = number < TASKS;
  int64_t at[RANK], from[RANK];  // of the result, of the image
  place(mine ? number : (index_t)(TASKS - 1), at);
  for (int d = 0; d < RANK; d++) from[d] = at[d];
  const int64_t z = SPACE > 2 ? at[RANK - (SPACE > 2 ? 3 : 1)] : 0, y = SPACE > 1 ? at[RANK - (SPACE > 1 ? 2 : 1)] : 0;
  const Taps deep = taps<FREE_D>(z, ID, OD, KD, SD, PD), high = taps<FREE_H>(y, IH, OH, KH, SH, PH);
  const Taps wide = taps<FREE_W>(at[RANK - 1], IW, OW, KW, SW, PW);
  const int count = deep.count * high.count * wide.count;
  Values acc;
  int64_t found[V];
#pragma unroll
  for (int v = 0; v < V; v++) acc.at[v] = START, found[v] = -1;
#pragma unroll (TIMES)
  for (int i = slot; i < count; i += GROUP) {
    const int64_t ix = wide.first + i % wide.count * LW, iy = high.first + i / wide.count % high.count * LH;
    const int64_t iz = deep.first + i / (wide.count * high.count) * LD;
    const bool there = ix >= 0 && ix < IW && iy >= 0 && iy < IH && iz >= 0 && iz < ID;
    from[RANK - 1] = there ? ix : 0;  // loads are unconditional, so that none waits for a branch
    if (SPACE > 1) from[RANK - (SPACE > 1 ? 2 : 1)] = there ? iy : 0;
    if (SPACE > 2) from[RANK - (SPACE > 2 ? 3 : 1)] = there ? iz : 0;
    const Values values = prologue0<V>(o, from);
#pragma unroll
    for (int v = 0; v < V; v++) {
      const float x = there ? values.at[v] : START;
      if (INDEX && there && (found[v] < 0 || x > acc.at[v] || x != x)) found[v] = (iz * IH + iy) * IW + ix;
      acc.at[v] = combine(acc.at[v], x);
    }
  }
#pragma unroll
  for (int lanes = GROUP / 2; lanes > 0; lanes /= 2)
#pragma unroll
    for (int v = 0; v < V; v++) acc.at[v] = combine(acc.at[v], __shfl_xor_sync(ws::FULL, acc.at[v], lanes));
  if (!mine || slot != 0) return;
  if (!MAXIMUM) {
    const float size = DIVISOR != 0 ? (float)DIVISOR
                                    : (FREE_D ? (float)deep.count : counted(z, ID, KD, SD, PD)) *
                                          (FREE_H ? (float)high.count : counted(y, IH, KH, SH, PH)) *
                                          (FREE_W ? (float)wide.count : counted(at[RANK - 1], IW, KW, SW, PW));
#pragma unroll
    for (int v = 0; v < V; v++) acc.at[v] /= size;
  }
  epilogue<V>(o, acc, at);
  keep(o, at, found);
}
