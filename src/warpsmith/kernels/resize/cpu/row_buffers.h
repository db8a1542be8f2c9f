//! A thread's scratch for interpolation: an input row, the output row, sources and weights of its columns (found once), and
//! the stretched rows that neighbouring output rows share.
float* const line = (float*)workspace + thread * SCRATCH;
float* const made = line + $line_floats;
float* const weight = made + MADE;
int32_t* const left = (int32_t*)(weight + MADE);
int32_t* const right = left + MADE;
float* const kept = (float*)(right + MADE);
int64_t held[$rows] = {$no_rows};  // which input rows are kept
for (int64_t j = 0; j < O; ++j) {
  const Spot spot = $source;
  left[j] = (int32_t)spot.first, right[j] = (int32_t)spot.second, weight[j] = spot.weight;
}
