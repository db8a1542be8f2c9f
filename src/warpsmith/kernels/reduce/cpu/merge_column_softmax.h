//! Merges maximum and sum of exponentials of a chunk of rows into those of its columns (online softmax), lane by lane.
for (int b = 0; b < BLOCK; ++b) {
  const ws::vf both = ws::max($chunk_top[b], $top[b]), one = ws::splat(1.0f);
  const ws::vf before = ws::select($top[b] == both, one, ws::exp($top[b] - both));
  const ws::vf fresh = ws::select($chunk_top[b] == both, one, ws::exp($chunk_top[b] - both));
  $sum[b] = $sum[b] * before + $chunk_sum[b] * fresh;
  $top[b] = both;
}
