// Runs one configuration of a Hopper GEMM on the CPU at the shapes of the command line and compares with float64.
// usage: gemm_on_host blocks group along_n parts seed m n k [m n k …]
#include <algorithm>

#include "hopper_on_host.h"
#if G_KIND == 1
#include "gemm_tma_wgmma.cuh"
#else
#include "gemm_mma_sync.cuh"
#endif

using Type = std::conditional_t<G_BF16, __nv_bfloat16, __half>;
using Result = std::conditional_t<G_FLOAT, float, Type>;
#if G_EPILOGUE == 2
// Takes rows of neighbours, as a unit's epilogue does.
struct Rows {
  ws::sm90::LinearEpilogue<Type, ws::sm90::Relu> linear;
  Result* to;
  float operator()(float sum, int, int) const { return sum; }
  template <int V, int MMAS, int SUMS>
  void stage(const float (&sums)[MMAS][SUMS], int row, int column, float* staging) const {
    ws::sm90::stage_rows<V>(sums, row, column, linear.m_end, linear.n_end, staging, [this](int m, int n, const float* at) {
      for (int v = 0; v < V; v++) {
        if (n + v >= linear.n_end) host::refuse("a pack over the edge");
        to[(int64_t)m * linear.n_end + n + v] = Result(linear(at[v], m, n + v));
      }
    });
  }
  template <int MMAS, int SUMS>
  void store(const float (&sums)[MMAS][SUMS], int row, int column, float* staging) const {
    if (linear.n_end % 4 == 0) stage<4>(sums, row, column, staging);
    else stage<1>(sums, row, column, staging);
  }
};
using Epilogue = Rows;
#else
using Epilogue = std::conditional_t<G_EPILOGUE, ws::sm90::LinearEpilogue<Type, ws::sm90::Relu>, ws::sm90::PlainEpilogue>;
#endif

struct Config {
  using In = Type;
  using Out = Result;
#if G_KIND == 1
  static constexpr int TILE_M = G_BM, TILE_N = G_BN, TILE_K = G_BK, STAGES = G_STAGES, CONSUMERS = G_CONSUMERS;
  static constexpr bool PINGPONG = G_PINGPONG;
  static constexpr int PRODUCER_WARPS = G_CONSUMERS == 2 ? 4 : 1, PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232, MIN_BLOCKS = 1;
  static constexpr int CLUSTER_M = G_CM, CLUSTER_N = G_CN, PANEL_N = G_PANEL, SPLIT = G_SPLIT, STORE_BOXES = G_BOXES, EPILOGUE_BYTES = G_EPILOGUE == 2 ? ws::sm90::ROW_STAGING_BYTES : 0;
  static constexpr bool SWAP_AB = G_SWAP, B_TRANSPOSED = G_BT, TMA_STORE = G_TMA_STORE;
  static constexpr int LEFT_HINT = 0, RIGHT_HINT = 0;
#else
  static constexpr int TILE_M = G_BM, TILE_N = G_BN, TILE_K = G_BK, STAGES = G_STAGES, WARPS_M = G_WM, WARPS_N = G_WN, WARPS_K = G_WK;
  static constexpr int VECTOR_A = G_VA, VECTOR_B = G_VB;
  static constexpr bool B_TRANSPOSED = G_BT, SPLIT_K = G_SPLIT;
#endif
};

static double run(int blocks, int group, int along_n, int parts, int seed, int m, int n, int k) {
  std::mt19937 numbers(seed);
  std::normal_distribution<float> normal;
  std::vector<Type> a(m * k), b(k * n), bias(n), residual(m * n);
  for (auto* values : {&a, &b, &bias, &residual})
    for (Type& x : *values) x = Type(normal(numbers));
  std::vector<Result> c(m * n + 64);
  memset((void*)c.data(), 0xff, c.size() * sizeof(Result));
  std::vector<int> counters(4096, 0);
  std::vector<float> partial(16 << 20, NAN);
  ws::sm90::GemmArguments<Epilogue> arguments{m, n, k, group, along_n, parts, a.data(), b.data(), c.data(), k, G_BT ? k : n, n, counters.data(), partial.data(), {}};
#if G_EPILOGUE == 2
  arguments.epilogue = {{bias.data(), residual.data(), n, 0.5f, 2.0f, m, n}, c.data()};
#elif G_EPILOGUE
  arguments.epilogue = {bias.data(), residual.data(), n, 0.5f, 2.0f, m, n};
#endif
#if G_KIND == 1
  using L = ws::sm90::GemmLayout<Config>;
  const int rows = G_SWAP ? n : m, columns = G_SWAP ? m : n;
  const void *left_base = G_SWAP ? b.data() : a.data(), *right_base = G_SWAP ? a.data() : b.data();
  const CUtensorMap left{left_base, L::LEFT_MN_MAJOR ? rows : k, L::LEFT_MN_MAJOR ? k : rows, L::Left::PANEL, L::LEFT_BOX_ROWS};
  const CUtensorMap right{right_base, L::RIGHT_MN_MAJOR ? columns : k, L::RIGHT_MN_MAJOR ? k : columns, L::Right::PANEL, L::RIGHT_BOX_ROWS};
  const CUtensorMap result{c.data(), n, m, L::STORE_WIDTH, L::STORE_ROWS};
  const int tiles = ws::sm90::ceil_div(rows, G_BM * G_CM) * ws::sm90::ceil_div(columns, G_BN * G_CN) * L::CLUSTER;
  const int cluster = G_SPLIT == 2 ? parts : L::CLUSTER;
  const int grid = G_SPLIT == 2 ? tiles * parts : std::min(tiles * parts, blocks / cluster * cluster);
  for (int again = 0; again < (G_SPLIT == 1 ? 2 : 1); again++)  // the second launch finds the counters as the first left them
    host::launch({(unsigned)grid, 1, 1}, cluster, L::THREADS, seed + again, [&] {
      ws::sm90::GemmTmaWgmma<Config, Epilogue> kernel{&left, &right, &result, arguments, {}, 0};
      kernel.run(host::now->block->shared());
    });
#else
  using L = ws::sm90::GemmMmaSyncLayout<Config>;
  const host::Index grid{(unsigned)ws::sm90::ceil_div(m, G_BM), (unsigned)ws::sm90::ceil_div(n, G_BN), (unsigned)parts};
  for (int again = 0; again < (G_SPLIT == 1 ? 2 : 1); again++)
    host::launch(grid, 1, L::THREADS, seed + again, [&] {
      ws::sm90::GemmMmaSync<Config, Epilogue> kernel{arguments, nullptr, 0};
      kernel.run(host::now->block->shared());
    });
#endif
  for (int counter : counters)
    if (counter != 0) host::refuse("a counter that is not zero after a launch");
  double difference = 0, squares = 0;
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int d = 0; d < k; d++) sum += (double)(float)a[i * k + d] * (float)(G_BT ? b[j * k + d] : b[d * n + j]);
      if (G_EPILOGUE) sum = std::max(0.5 * sum + (float)bias[j], 0.0) + 2.0 * (float)residual[i * n + j];
      const double d = (float)c[i * n + j] - sum;
      difference += d * d, squares += sum * sum;
    }
  for (size_t i = (size_t)m * n; i < c.size(); i++)
    for (size_t byte = 0; byte < sizeof(Result); byte++)
      if (((unsigned char*)&c[i])[byte] != 0xff) host::refuse("a store outside of the result");
  return sqrt(difference / squares);
}

int main(int count, char** words) {
  const auto number = [&](int i) { return atoi(words[i]); };
  for (int i = 6; i + 2 < count; i += 3)
    printf("%.3e\n", run(number(1), number(2), number(3), number(4), number(5), number(i), number(i + 1), number(i + 2)));
}
