//! Combines all elements of a run in float64, eight totals side by side: the first of the two passes of a scan that is split over threads.
// All of `size` elements combined, eight totals side by side.
static inline __attribute__((always_inline)) d8 total_run(float* run, int64_t size, d8 total) {
  const int64_t eights = (size + 7) / 8;
  for (int64_t j = size; j < eights * 8; ++j) run[j] = (float)IDENTITY;
  for (int64_t e = 0; e < eights; ++e) total = combine(total, load8(run + e * 8));
  return total;
}
