//! Windows of a pooling at compile time (fixed or adaptive), the counts that averages are divided by, and loads at small strides by register shuffles.
// Windows of K taps along a dimension of I elements: tap k of window o is at low(o) + k * D; those in [begin, end) exist.
template <int64_t I_, int64_t O_, int64_t K_, int64_t S_, int64_t P_, int64_t D_> struct Fixed {
  static constexpr int64_t I = I_, O = O_, K = K_, S = S_, D = D_;
  static constexpr bool even = true;
  static constexpr int64_t low(int64_t o) { return o * S - P_; }
  static constexpr int64_t reach(int64_t) { return (K - 1) * D + 1; }
  static constexpr int64_t begin(int64_t o) { return low(o) < 0 ? (D - 1 - low(o)) / D : 0; }
  static constexpr int64_t end(int64_t o) {
    const int64_t room = (I - low(o) + D - 1) / D;
    return room < 0 ? 0 : room < K ? room : K;
  }
  static constexpr int64_t count(int64_t o, bool padded) {
    if (!padded) return end(o) - begin(o);
    return low(o) + K < I + P_ ? K : I + P_ - low(o);
  }
};
// O windows that cover I elements, o * I / O to (o + 1) * I / O; of equal length where O divides I.
template <int64_t I_, int64_t O_> struct Adaptive {
  static constexpr int64_t I = I_, O = O_, D = 1;
  static constexpr bool even = I % some(O) == 0;
  static constexpr int64_t K = even ? I / some(O) : 0, S = some(K);
  static constexpr int64_t low(int64_t o) { return o * I / some(O); }
  static constexpr int64_t reach(int64_t o) { return even ? K : ((o + 1) * I + some(O) - 1) / some(O) - low(o); }
  static constexpr int64_t begin(int64_t) { return 0; }
  static constexpr int64_t end(int64_t o) { return reach(o); }
  static constexpr int64_t count(int64_t o, bool) { return reach(o); }
};
constexpr int64_t pooled(int64_t i, int64_t k, int64_t s, int64_t p, int64_t d, bool ceil) {
  const int64_t o = (i + 2 * p - d * (k - 1) - 1 + (ceil ? s - 1 : 0)) / s + 1;
  return ceil && (o - 1) * s >= i + p ? o - 1 : o;
}
// By what n neighbouring averages are divided.
template <class Windows> WS_FN ws::vf counts(int64_t o, int n, bool padded) {
  const bool full = Windows::count(o, padded) == Windows::K && Windows::count(o + n - 1, padded) == Windows::K;
  if (WS_LIKELY(full)) return ws::splat((float)Windows::K);
  ws::vf c = ws::splat(1.0f);
  for (int i = 0; i < n; ++i) c[i] = (float)Windows::count(o + i, padded);
  return c;
}
// Elements 0, S, 2 S ... of p, n of them; for small S by shuffles of whole vectors, which read past the last.
template <int64_t S> WS_FN ws::vf strided(const float* p, int n) {
  if constexpr (S == 1) return ws::load(p);
#ifdef WS_GCC
  else if constexpr (S == 2 || S == 4 || S == 8) {
    const ws::vf a = strided<S / 2>(p, VEC), b = strided<S / 2>(p + VEC * (S / 2), VEC);
    return __builtin_shuffle(a, b, ws::iota() * 2);
  } else if constexpr (S == 3) {
    const ws::vi at = ws::iota() * 3;
    const ws::vf ab = __builtin_shuffle(ws::load(p), ws::load(p + VEC), at < 2 * VEC ? at : at - at);
    return __builtin_shuffle(ab, ws::load(p + 2 * VEC), at < 2 * VEC ? ws::iota() : at - VEC);
  }
#endif
  else {
    ws::vf v{};
    for (int i = 0; i < n; ++i) v[i] = p[i * S];
    return v;
  }
}
