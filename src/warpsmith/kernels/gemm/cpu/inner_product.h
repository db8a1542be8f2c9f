//! Inner-product GEMM for few rows or few columns: lanes run along K, a tile of ROWS x COLUMNS sums stays in registers and is
//! added across lanes at the end; factors that are contiguous along K are read in place, others are packed into the thread's
//! scratch; one parallel loop over tiles and K parts; float32 accumulation over at most MAX_DEPTH terms, parts in float64.
constexpr int C = (int)most(1, least(COLUMNS, N));
constexpr int64_t BLOCK = C * (64 / C), BLOCKS = pieces(N, BLOCK), WIDTH = padded(BLOCK, VEC);
constexpr int UNROLL_K = R * C >= 8 ? 1 : R * C >= 4 ? 2 : 4;  // vectors of the sum at once: enough additions in flight
constexpr bool LEFT_DIRECT = !LEFT_MADE && LEFT_EVEN && LEFT_K == 1, RIGHT_DIRECT = RIGHT_K == 1;
constexpr int64_t LEFT_FLOATS = LEFT_DIRECT ? 0 : padded(R * PITCH, 16);
constexpr int64_t SCRATCH = LEFT_FLOATS + (RIGHT_DIRECT ? 0 : padded(BLOCK * PITCH, 16));

// sums[r][c] = the sum over k of left[r][k] * right[c][k].
template <int Rows, int Columns, int64_t LEFT_ROW, int64_t RIGHT_ROW, class L, class T>
WS_FN void accumulate(const L* left, const T* right, int64_t depth, float* sums) {
  ws::vf sum[Rows][Columns][UNROLL_K] = {};
  const auto step = [&](int64_t k, int n, int u) __attribute__((always_inline)) {
    ws::vf row[Rows];
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) row[r] = ws::held(read<1>(left + r * LEFT_ROW, k, n));
#pragma GCC unroll 16
    for (int c = 0; c < Columns; ++c) {
      const ws::vf column = ws::held(read<1>(right + c * RIGHT_ROW, k, n));
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) sum[r][c][u] += row[r] * column;
    }
  };
  int64_t k = 0;
  for (; k + UNROLL_K * VEC <= depth; k += UNROLL_K * VEC) {
#pragma GCC unroll 16
    for (int u = 0; u < UNROLL_K; ++u) step(k + u * VEC, VEC, u);
  }
  for (; k + VEC <= depth; k += VEC) step(k, VEC, 0);
  if (k < depth) step(k, (int)least(VEC - 1, depth - k), 0);
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < Columns; ++c) {
      ws::vf total = sum[r][c][0];
#pragma GCC unroll 16
      for (int u = 1; u < UNROLL_K; ++u) total += sum[r][c][u];
      sums[r * WIDTH + c] = ws::hadd(total);
    }
  }
}
template <int Rows, int64_t LEFT_ROW, int64_t RIGHT_ROW, class L, class T>
static __attribute__((noinline)) void tile(const L* left, const T* right, int64_t columns, int64_t depth, float* sums) {
  int64_t c = 0;
  for (; c + C <= columns; c += C) accumulate<Rows, C, LEFT_ROW, RIGHT_ROW>(left, right + c * RIGHT_ROW, depth, sums + c);
  if constexpr (N % C != 0)
    for (; c < BLOCK && c < columns; ++c)
      accumulate<Rows, 1, LEFT_ROW, RIGHT_ROW>(left, right + c * RIGHT_ROW, depth, sums + c);
}
// Rows in a tile are a constant of the code.
template <int64_t LEFT_ROW, int64_t RIGHT_ROW, class L, class T>
WS_FN void tiles(int64_t rows, const L* left, const T* right, int64_t columns, int64_t depth, float* sums) {
  if (rows == R) tile<R, LEFT_ROW, RIGHT_ROW>(left, right, columns, depth, sums);
  else if constexpr (R_LAST < R) tile<R_LAST, LEFT_ROW, RIGHT_ROW>(left, right, columns, depth, sums);
}
template <int64_t LEFT_ROW, class L>
WS_FN void with_left(int64_t rows, const L* left, const right_t* right, const float* block, int64_t columns, int64_t depth, float* sums) {
  if constexpr (RIGHT_DIRECT) tiles<LEFT_ROW, RIGHT_N>(rows, left, right, columns, depth, sums);
  else tiles<LEFT_ROW, PITCH>(rows, left, block, columns, depth, sums);
}
template <class Fill, class Finish>
static inline void multiply(const left_t* left, const right_t* right, float* scratch, const Fill& fill, const Finish& finish) {
  float* const partial = scratch + THREADS * SCRATCH;
  constexpr int64_t ITEMS = N > 0 && M > 0 ? PARTS * BATCH * BLOCKS * ROW_TILES : 0;
  spread(ITEMS, R * least(BLOCK, N) * DEPTH, SCRATCH, scratch, [&](int64_t begin, int64_t end, float* own) {
    alignas(64) float sums[R * WIDTH] = {};
    float* const columns_at = own + LEFT_FLOATS;
    int64_t packed = -1, filled = -1;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t t = turn(item % ROW_TILES), c = item / ROW_TILES, block = c % most(1, BLOCKS), slab = c / most(1, BLOCKS);
      const int64_t b = slab % most(1, BATCH), p = slab / most(1, BATCH), m = t * R, k = p * DEPTH, n = block * BLOCK;
      const int64_t depth = most(0, least(DEPTH, K - k)), rows = least(R, M - m), columns = least(BLOCK, N - n);
      int64_t at[RANK] = {};
      place(b, m, at);
      const right_t* const from = right + right_at(at) + k * RIGHT_K + n * RIGHT_N;
      const left_t* const rows_from = left + left_at(at) + k * LEFT_K;
      if (!RIGHT_DIRECT && packed != c) {
        packed = c;
        for (int64_t i = 0; i < BLOCK && i < columns; ++i)
          for (int64_t j = 0; j < DEPTH && j < depth; j += VEC) {
            const int some = (int)least(VEC, depth - j);
            write<1>(columns_at + i * PITCH, j, read<RIGHT_K>(from + i * RIGHT_N, j, some), some);
          }
      }
      if (!LEFT_DIRECT && filled != slab * ROW_TILES + t) {
        filled = slab * ROW_TILES + t;
        for (int64_t r = 0; r < rows; ++r) {
          place(b, m + r, at);
          fill(own + r * PITCH, at, k, depth);
        }
      }
      if (outside(m, m + rows - 1, n, n + columns - 1)) {
        for (int64_t i = 0; i < R * WIDTH; ++i) sums[i] = 0.0f;
      } else if constexpr (LEFT_DIRECT) {
        with_left<LEFT_M>(rows, rows_from, from, columns_at, columns, depth, sums);
      } else {
        with_left<PITCH>(rows, own, from, columns_at, columns, depth, sums);
      }
      for (int64_t r = 0; r < rows; ++r) store_sums(p, b, m + r, n, sums + r * WIDTH, columns, partial, finish);
    }
  });
  if constexpr (PARTS > 1) combine(partial, finish);
}
