//! Scan along another dimension: a thread a vector of neighbouring columns, UNROLL loads under way, carry in double.
constexpr int V = ws::widest(WIDTH, VEC);
constexpr int64_t ACROSS = WIDTH / V, TASKS = count(true) * ACROSS;
using Values = ws::Pack<float, V>;

__global__ void __launch_bounds__(BLOCK) scan(Operands o) {
  const int64_t task = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (task >= TASKS) return;
  int64_t at[RANK];
  place(task / ACROSS, at, true);
  at[LAST] = task % ACROSS * V;
  double carry[V];
#pragma unroll
  for (int v = 0; v < V; v++) carry[v] = IDENTITY;
  for (int64_t first = 0; first < N; first += UNROLL) {
    Values values[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
      const int64_t i = first + u - EXCLUSIVE;  // of the source: an exclusive scan is one behind
      at[AXIS] = REVERSE ? N - 1 - i : i;
      if (i >= 0 && i < COUNT) values[u] = prologue0<V>(o, at);
    }
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
      const int64_t i = first + u;
      if (i >= N) break;
#pragma unroll
      for (int v = 0; v < V; v++) {
        if (!EXCLUSIVE || i > 0) carry[v] = join(carry[v], (double)values[u].at[v]);
        values[u].at[v] = (float)carry[v];
      }
      at[AXIS] = REVERSE ? N - 1 - i : i;
      epilogue<V>(o, values[u], at);
    }
  }
}
