//! Register tiling: BLOCK rows of sums by UNROLL vectors stay in registers over all taps, then go to the thread's output tile; the rest one vector at a time.
const auto piece = [&](auto width, int64_t i) __attribute__((always_inline)) {
  constexpr int vectors = decltype(width)::vectors;
  ws::vf acc[BLOCK][vectors];
#pragma GCC unroll 16
  for (int o = 0; o < BLOCK; ++o)
#pragma GCC unroll 16
    for (int u = 0; u < vectors; ++u) acc[o][u] = ws::splat($start);
  $sums
#pragma GCC unroll 16
  for (int o = 0; o < BLOCK; ++o)
#pragma GCC unroll 16
    for (int u = 0; u < vectors; ++u) ws::store(tile + o * RUN + i + u * VEC, acc[o][u]);
};
struct Wide { enum { vectors = UNROLL }; };
struct Narrow { enum { vectors = 1 }; };
int64_t i = 0;
for (; i + UNROLL * VEC <= $length; i += UNROLL * VEC) piece(Wide{}, i);
for (; i < $length; i += VEC) piece(Narrow{}, i);
