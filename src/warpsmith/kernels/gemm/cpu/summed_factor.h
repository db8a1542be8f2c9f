//! Sum over a dimension of a GEMM, as the product with the sum of one factor: first the factor's rows are summed (float64
//! every BLOCK terms, result float32 in scratch), then each output is one dot product along K in registers, flushed into
//! float64; two parallel loops; the summed dimensions must be walkable with one stride.
constexpr int64_t K = $summed_shape[$summed_inner], COUNT = $count, BATCHES = $batches;
constexpr int64_t LINE = (K + 31) / 16 * 16;  // of a batch's sums, floats
constexpr int64_t along = $summed_stride[$summed_inner], across = pace($summed_shape, $summed_stride, $first, $last);
static_assert(flat($summed_shape, $summed_stride, $first, $last), "requires: summed dimensions without gaps between them");
constexpr int64_t extent[] = {$extents}, in_s[] = {$in_summed}, in_r[] = {$in_other}, batch_of[] = {$batch_of};
constexpr int into[] = {$into};
float* const sums = (float*)workspace;
const double start = $start;
ws::parallel_ranges(THREADS, BATCHES * K, 1 + (1 << 15) / (COUNT + 1), [&](int64_t begin, int64_t end, int) {
  for (int64_t q = begin, length; q < end; q += length) {
    const int64_t batch = q / some(K), first = q % some(K);
    length = end - q < K - first ? end - q : K - first;
    int64_t rest = batch, offset = first * along;
    for (int d = $dims - 1; d >= 0; --d) {
      if (batch_of[d] == 0) continue;
      offset += rest % extent[d] * in_s[d];
      rest /= extent[d];
    }
    const auto* const from = $summed + offset;
    float* const to = sums + batch * LINE + first;
    if constexpr (across == 1 && along != 1) {
      for (int64_t k = 0; k < length; ++k) {
        const auto at = [&](int64_t o) { return read<1>(from + k * along, o, VEC); };
        const auto at_n = [&](int64_t o, int n) { return read<1>(from + k * along, o, n); };
        to[k] = (float)ws::sum<UNROLL>(COUNT, at, at_n);
      }
    } else {
      constexpr int64_t MOST = 2048;  // columns at a time, in the first-level cache
      struct Many { char size[BLOCK]; };
      for (int64_t start = 0; start < length; start += MOST) {
        const int64_t columns = length - start < MOST ? length - start : MOST;
        double total[MOST + VEC];
        __builtin_memset(total, 0, (size_t)(columns + VEC) * sizeof(double));
        const auto add = [&](int64_t o, auto block) {
          for (int64_t k = 0; k < columns; k += VEC) {
            const int n = (int)(columns - k < VEC ? columns - k : VEC);
            ws::vf part{};
#pragma GCC unroll 32
            for (int64_t i = 0; i < (int64_t)sizeof(block); ++i)
              part += read<along>(from + (o + i) * across, start + k, n);
            *(ws::vd_mem*)(total + k) += ws::widen(part);
          }
        };
        int64_t o = 0;
        for (; o + BLOCK <= COUNT; o += BLOCK) add(o, Many{});
        for (; o < COUNT; ++o) add(o, char{});
        for (int64_t k = 0; k < columns; ++k) to[start + k] = (float)total[k];
      }
    }
  }
}, 64);
int64_t results = 1;
for (const int64_t n : extent) results *= n;
ws::parallel_ranges(THREADS, results, 1 + (1 << 15) / (K + 1), [&](int64_t begin, int64_t end, int) {
  for (int64_t result = begin; result < end; ++result) {
    int64_t at[$rank] = {}, rest = result, offset = 0, batch = 0;
    for (int d = $dims - 1; d >= 0; --d) {
      const int64_t i = rest % extent[d];
      rest /= extent[d];
      at[into[d]] = i;
      offset += i * in_r[d];
      batch += i * batch_of[d];
    }
    const auto* const row = $other + offset;
    const float* const vector = sums + batch * LINE;
    const auto term = [&](int64_t k) { return read<$other_stride[$other_inner]>(row, k, VEC) * ws::load(vector + k); };
    const auto term_n = [&](int64_t k, int n) { return read<$other_stride[$other_inner]>(row, k, n) * ws::load_n(vector + k, n); };
    const double total = $total_start + ws::sum<UNROLL>(K, term, term_n);
    const float acc = (float)($scaled);
    epilogue(&acc, at, 1);
  }
});
