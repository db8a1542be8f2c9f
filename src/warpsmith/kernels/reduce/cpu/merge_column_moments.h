//! Merges count, mean and sum of squared deviations of a chunk of rows into those of its columns, lane by lane in float64.
const double $more = (double)many;
const double $all = $count + $more;
for (int b = 0; b < BLOCK; ++b) {
  const ws::vd tip = ws::widen($rest[b]) / $more;
  const ws::vd gap = ws::widen($shift[b]) + tip - $mean[b];
  $squares[b] += ws::widen($chunk_squares[b])
      - tip * tip * $more
      + gap * gap * ($count * $more / $all);
  $mean[b] += gap * ($more / $all);
}
$count = $all;
