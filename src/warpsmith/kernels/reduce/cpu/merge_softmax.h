//! Merges maximum and sum of exponentials of two sets (online softmax), each sum rescaled to the maximum of both.
const float top = $top, both = ws::max(top, $all_top);
const float old = $all_top == both ? 1.0f : ws::exp($all_top - both);
const float fresh = top == both ? 1.0f : ws::exp(top - both);
$all_sum = $all_sum * old + $sum * fresh;
$all_top = both;
