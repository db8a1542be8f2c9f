//! Merges count, mean and sum of squared deviations of two sets in float64 (Chan, Golub and LeVeque 1983).
const double more = $count, gap = $mean - $all_mean;
const double all = $all_count + more;
$all_squares += $squares + gap * gap * $all_count * more / all;
$all_mean += gap * more / all;
$all_count = all;
