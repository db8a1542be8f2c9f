//! Softmax of attention in two passes over the scores, a warp a row: the largest score, then one over the sum of
//! exponentials, in fp32; `weights` applies both where weights times values reads a score. $scale: of the scores.

// Functions, since the front end has no constant for a root that is not whole.
__device__ __forceinline__ float scale() { return $scale; }
__device__ __forceinline__ float sign() { return scale() < 0.0f ? -1.0f : 1.0f; }
// The largest score is of scores as they are, with the scale's sign: subtracted from scaled ones, in a fused multiply-add, it would be off
// by its own rounding.
__device__ __forceinline__ float exp_below(float score, float most) { return expf((sign() * score - most) * fabsf(scale())); }
// Of each row of scores the largest, and one over the sum of the exponentials. A warp a row.
__global__ void __launch_bounds__(256) norms(Operands o) {
  constexpr int V = keys::OUT_VEC;
  const int64_t row = (int64_t)blockIdx.x * 8 + threadIdx.x / 32;
  if (row >= ROWS) return;
  const float* const scores = o.scores + row * keys::N;
  float most = -INFINITY, sum = 0.0f;
#pragma unroll 4
  for (int64_t i = threadIdx.x % 32 * V; i < keys::N; i += 32 * V) {
    const ws::Pack<float, V> some = ws::load_pack<V>(scores + i);
#pragma unroll
    for (int v = 0; v < V; v++) most = fmaxf(most, sign() * some.at[v]);
  }
  most = ws::warp_max(most);
#pragma unroll 4
  for (int64_t i = threadIdx.x % 32 * V; i < keys::N; i += 32 * V) {
    const ws::Pack<float, V> some = ws::load_pack<V>(scores + i);
#pragma unroll
    for (int v = 0; v < V; v++) sum += exp_below(some.at[v], most);
  }
  sum = ws::warp_sum(sum);
  if (threadIdx.x % 32 == 0) o.norms[2 * row] = most, o.norms[2 * row + 1] = 1.0f / sum;
}
__device__ __forceinline__ auto weights(const Operands& o, int64_t row) {
  const float most = o.norms[2 * row], share = o.norms[2 * row + 1];
  return [=](float score) { return exp_below(score, most) * share; };
}
