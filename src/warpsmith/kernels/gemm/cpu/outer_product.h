//! Outer-product GEMM (Goto and van de Geijn 2008): a tile of R rows by V vectors of columns stays in registers over K; the
//! right factor is read in place or packed into panels that stay in the L2 cache (RESIDENT KiB) for all rows of a block, and
//! is transposed in registers where it is contiguous along K; one parallel loop over tiles and K parts; float32 accumulation
//! in chunks of 512 terms, parts in float64.
// A tile's sums, one row of vectors of the right factor and one value of the left one fill all registers but one.
constexpr int V = (int)least(most(1, least(8, (ws::registers - 2) / (R + 1))), most(1, pieces(N, VEC)));
constexpr int64_t WIDTH = V * VEC, PANEL_COUNT = pieces(N, WIDTH), REST = N % WIDTH;
constexpr int V_REST = (int)pieces(REST, VEC), LANES_REST = REST % VEC ? (int)(REST % VEC) : VEC;
constexpr bool PACKED = RIGHT_N != 1 || (PACK && M > R);
// Panels of a block stay in the second-level cache: RESIDENT KiB; threads want several blocks, or rows, each.
constexpr int64_t FIT = most(1, RESIDENT * 256 / (DEPTH * WIDTH)), SHARE = PANEL_COUNT * ROW_TILES * BATCH * PARTS / (4 * THREADS);
constexpr int64_t BLOCK = most(1, least(least(PANEL_COUNT, FIT), SHARE)), BLOCKS = pieces(PANEL_COUNT, BLOCK);
// The left factor: read where it lies, copied with R rows side by side, or copied row by row.
enum Source { DIRECT, SIDE_BY_SIDE, ROW_BY_ROW };
constexpr bool PLAIN = !LEFT_MADE && LEFT_EVEN;
constexpr Source LEFT = PLAIN && sizeof(left_t) == 4 && (LEFT_K == 1 || N <= WIDTH) ? DIRECT
                        : PLAIN && LEFT_M == 1 && LEFT_K != 1                       ? SIDE_BY_SIDE
                                                                                    : ROW_BY_ROW;
constexpr int64_t ABREAST = padded(R, VEC);
constexpr int64_t LEFT_ROW = LEFT == DIRECT ? LEFT_M : LEFT == SIDE_BY_SIDE ? 1 : PITCH;
constexpr int64_t LEFT_STEP = LEFT == DIRECT ? LEFT_K : LEFT == SIDE_BY_SIDE ? ABREAST : 1;
constexpr int64_t LEFT_FLOATS = LEFT == DIRECT ? 0 : LEFT == SIDE_BY_SIDE ? DEPTH * ABREAST : padded(R * PITCH, 16);
constexpr int64_t SCRATCH = LEFT_FLOATS + (PACKED ? DEPTH * BLOCK * WIDTH : 0);

template <int S> WS_FN void exchange(ws::vf (&r)[VEC]) {  // one step of a transposition: lanes S apart change rows
#if defined(WS_GCC)
  const ws::vi lane = ws::iota(), odd = (lane & S) != 0;
#pragma GCC unroll 16
  for (int i = 0; i < VEC; ++i)
    if (!(i & S)) {
      const ws::vf a = r[i], b = r[i + S];
      r[i] = __builtin_shuffle(a, b, ws::select(odd, lane - S + VEC, lane));
      r[i + S] = __builtin_shuffle(a, b, ws::select(odd, lane + VEC, lane + S));
    }
#else
  for (int i = 0; i < VEC; ++i)
    for (int l = 0; l < VEC; ++l)
      if (!(i & S) && (l & S)) {
        const float a = r[i][l];
        r[i][l] = r[i + S][l - S], r[i + S][l - S] = a;
      }
#endif
}
WS_FN void transpose(ws::vf (&r)[VEC]) {
  exchange<1>(r), exchange<2>(r);
  if constexpr (VEC >= 8) exchange<4>(r);
  if constexpr (VEC >= 16) exchange<8>(r);
}
// A panel: for each of `depth` steps `Vectors` vectors of columns, of which `columns` exist.
template <int Vectors> static inline void pack_panel(const right_t* right, int64_t columns, int64_t depth, float* to) {
  for (int v = 0; v < Vectors; ++v, right += VEC * RIGHT_N) {
    const int n = (int)least(VEC, columns - v * VEC);
    float* const at = to + v * VEC;
    if constexpr (RIGHT_K == 1 && RIGHT_N != 1) {
      for (int64_t k = 0; k < depth; k += VEC) {
        const int steps = (int)least(VEC, depth - k);
        ws::vf r[VEC];
#pragma GCC unroll 16
        for (int i = 0; i < VEC; ++i) r[i] = i < n ? read<1>(right + i * RIGHT_N, k, steps) : ws::vf{};
        transpose(r);
#pragma GCC unroll 16
        for (int i = 0; i < VEC; ++i)
          if (i < steps) ws::store(at + (k + i) * Vectors * VEC, r[i]);
      }
    } else {
      for (int64_t k = 0; k < depth; ++k) ws::store(at + k * Vectors * VEC, read<RIGHT_N>(right + k * RIGHT_K, 0, n));
    }
  }
}
// sums[r][·] = the sum over k of left[r][k] * right[k][·], in registers; longer sums in chunks, which keeps them accurate.
template <int Rows, int Vectors, int Lanes, int64_t STEP, class T>
static __attribute__((noinline)) void accumulate(const float* left, const T* right, int64_t depth, float* sums) {
  constexpr int64_t CHUNK = 512;
  for (int64_t begin = 0; begin == 0 || begin < depth; begin += CHUNK) {
    const int64_t end = least(begin + CHUNK, depth);
    ws::vf sum[Rows][Vectors] = {};
    const float* a = left + begin * LEFT_STEP;
    const T* b = right + begin * STEP;
    for (int64_t k = begin; k < end; ++k, a += LEFT_STEP, b += STEP) {
      ws::vf column[Vectors];
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; ++v) column[v] = ws::held(read<1>(b, v * VEC, v + 1 < Vectors ? VEC : Lanes));
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const ws::vf row = ws::splat(a[r * LEFT_ROW]);
#pragma GCC unroll 16
        for (int v = 0; v < Vectors; ++v) sum[r][v] += row * column[v];
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; ++v) {
        float* const at = sums + r * WIDTH + v * VEC;
        ws::store(at, begin == 0 ? sum[r][v] : ws::load(at) + sum[r][v]);
      }
    }
  }
}
template <int Rows, int Vectors, int Lanes>
WS_FN void tile(const float* left, const right_t* right, const float* panel, int64_t depth, float* sums) {
  if constexpr (PACKED) accumulate<Rows, Vectors, VEC, Vectors * VEC>(left, panel, depth, sums);
  else accumulate<Rows, Vectors, Lanes, RIGHT_K>(left, right, depth, sums);
}
// The tiles of `Rows` rows from m on with the panels of a block.
template <int Rows, class Finish>
WS_FN void tiles(int64_t p, int64_t b, int64_t m, int64_t block, const float* left, const right_t* right, const float* panels,
                 int64_t depth, float* sums, float* partial, const Finish& finish) {
  const int64_t last = least(PANEL_COUNT, (block + 1) * BLOCK);
  for (int64_t panel = block * BLOCK; panel < last; ++panel, panels += depth * WIDTH) {
    const int64_t n = panel * WIDTH, columns = least(WIDTH, N - n);
    if (outside(m, m + Rows - 1, n, n + columns - 1)) {
      for (int64_t i = 0; i < Rows * WIDTH; ++i) sums[i] = 0.0f;
    } else if (columns == WIDTH) {
      tile<Rows, V, VEC>(left, right + n * RIGHT_N, panels, depth, sums);
    } else if constexpr (REST > 0) {
      tile<Rows, V_REST, LANES_REST>(left, right + n * RIGHT_N, panels, depth, sums);
    }
    for (int r = 0; r < Rows; ++r) store_sums(p, b, m + r, n, sums + r * WIDTH, columns, partial, finish);
  }
}
// Fills `to` with R rows of the left factor from row m on.
template <class Fill>
WS_FN void pack_rows(const left_t* left, int64_t b, int64_t m, int64_t rows, int64_t k, int64_t depth, float* to, const Fill& fill) {
  int64_t at[RANK] = {};
  if constexpr (LEFT == SIDE_BY_SIDE) {
    place(b, m, at);
    const left_t* const from = left + left_at(at) + k * LEFT_K;
    for (int64_t i = 0; i < depth; ++i)
      for (int64_t r = 0; r < rows; r += VEC)
        ws::store(to + i * ABREAST + r, read<1>(from + i * LEFT_K, r, (int)least(VEC, rows - r)));
  } else if constexpr (LEFT == ROW_BY_ROW) {
    for (int64_t r = 0; r < rows; ++r) {
      place(b, m + r, at);
      fill(to + r * PITCH, at, k, depth);
    }
  }
}
template <class Fill, class Finish>
static inline void multiply(const left_t* left, const right_t* right, float* scratch, const Fill& fill, const Finish& finish) {
  float* const partial = scratch + THREADS * SCRATCH;
  constexpr int64_t ITEMS = N > 0 && M > 0 ? PARTS * BATCH * BLOCKS * ROW_TILES : 0;
  spread(ITEMS, R * WIDTH * BLOCK * DEPTH, SCRATCH, scratch, [&](int64_t begin, int64_t end, float* own) {
    alignas(64) float sums[R * WIDTH] = {};
    float* const panels = own + LEFT_FLOATS;
    int64_t packed = -1, filled = -1;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t t = turn(item % ROW_TILES), c = item / ROW_TILES, block = c % most(1, BLOCKS), slab = c / most(1, BLOCKS);
      const int64_t b = slab % most(1, BATCH), p = slab / most(1, BATCH), m = t * R, k = p * DEPTH;
      const int64_t depth = most(0, least(DEPTH, K - k)), rows = least(R, M - m);
      int64_t at[RANK] = {};
      place(b, m, at);
      const right_t* const from = right + right_at(at) + k * RIGHT_K;
      if (PACKED && packed != c) {
        packed = c;
        for (int64_t panel = block * BLOCK; panel < least(PANEL_COUNT, (block + 1) * BLOCK); ++panel) {
          const int64_t n = panel * WIDTH, columns = least(WIDTH, N - n);
          float* const to = panels + (panel - block * BLOCK) * depth * WIDTH;
          if (columns == WIDTH) pack_panel<V>(from + n * RIGHT_N, WIDTH, depth, to);
          else if constexpr (REST > 0) pack_panel<V_REST>(from + n * RIGHT_N, columns, depth, to);
        }
      }
      if (LEFT != DIRECT && filled != slab * ROW_TILES + t) {
        filled = slab * ROW_TILES + t;
        pack_rows(left, b, m, rows, k, depth, own, fill);
      }
      const float* rows_from = own;
      if constexpr (LEFT == DIRECT) rows_from = left + left_at(at) + k * LEFT_K;
      if (rows == R) tiles<R>(p, b, m, block, rows_from, from, panels, depth, sums, partial, finish);
      else if constexpr (R_LAST < R) tiles<R_LAST>(p, b, m, block, rows_from, from, panels, depth, sums, partial, finish);
    }
  });
  if constexpr (PARTS > 1) combine(partial, finish);
}
