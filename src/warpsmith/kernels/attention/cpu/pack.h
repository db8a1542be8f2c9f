//! Packs keys into transposed panels and queries or values into padded rows, as float32; VEC x VEC blocks are transposed in registers.
// VEC x VEC floats in registers, transposed in log2(VEC) steps: bit K of row and lane change places.
template <int K> WS_FN void transpose(ws::vf (&x)[VEC]) {
#if defined(WS_GCC)
  const ws::vi lane = ws::iota();
  const ws::vm high = (lane & K) != 0;
  const ws::vi upper = ws::select(high, (lane ^ K) + VEC, lane), lower = ws::select(high, lane + VEC, lane | K);
#pragma GCC unroll 16
  for (int i = 0; i < VEC; ++i) {
    if (i & K) continue;
    const ws::vf a = x[i], b = x[i | K];
    x[i] = __builtin_shuffle(a, b, upper);
    x[i | K] = __builtin_shuffle(a, b, lower);
  }
  if constexpr (2 * K < VEC) transpose<2 * K>(x);
#else
  for (int i = 0; i < VEC; ++i)
    for (int j = 0; j < i; ++j) {
      const float a = x[i][j];
      x[i][j] = x[j][i];
      x[j][i] = a;
    }
#endif
}

// n lanes at p, STEP elements apart; the others 0.
template <int64_t STEP, class T> WS_FN ws::vf lanes_of(const T* p, int n) {
  if constexpr (STEP == 1) return n == VEC ? ws::load(p) : ws::load_n(p, n);
  else {
    ws::vf v{};
    for (int i = 0; i < n; ++i) v[i] = ws::load_one(p + i * STEP);
    return v;
  }
}

// Keys as panels: to[panel][feature][key], 0 beyond the last key.
template <int64_t KEY, int64_t FEATURE, class T>
static __attribute__((noinline)) void pack_keys(const T* from, float* to, int64_t count, int64_t width) {
  for (int64_t at = 0; at < count; at += VEC) {
    const int n = (int)(count - at < VEC ? count - at : VEC);
    const T* const keys = from + at * KEY;
    float* const panel = to + at / PANEL * PANEL * width + at % PANEL;
    if constexpr (FEATURE == 1 && KEY != 1) {
      for (int64_t e = 0; e < width; e += VEC) {
        const int m = (int)(width - e < VEC ? width - e : VEC);
        ws::vf x[VEC];
#pragma GCC unroll 16
        for (int i = 0; i < VEC; ++i) x[i] = i < n ? lanes_of<1>(keys + i * KEY + e, m) : ws::vf{};
        transpose<1>(x);
#pragma GCC unroll 16
        for (int i = 0; i < VEC; ++i)
          if (i < m) ws::store(panel + (e + i) * PANEL, x[i]);
      }
    } else {
      for (int64_t e = 0; e < width; ++e) ws::store(panel + e * PANEL, lanes_of<KEY>(keys + e * FEATURE, n));
    }
  }
  for (int64_t at = (count + VEC - 1) / VEC * VEC; at < (count + PANEL - 1) / PANEL * PANEL; at += VEC)
    for (int64_t e = 0; e < width; ++e) ws::store(to + at / PANEL * PANEL * width + e * PANEL + at % PANEL, ws::vf{});
}

// Rows, dense and padded with 0 to whole vectors.
template <int64_t ROW, int64_t FEATURE, class T>
static __attribute__((noinline)) void pack_rows(const T* from, float* to, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t e = 0; e < width; e += VEC, to += VEC) {
      const int n = (int)(width - e < VEC ? width - e : VEC);
      ws::store(to, lanes_of<FEATURE>(from + r * ROW + e * FEATURE, n));
    }
}
