//! Total order of an argmax: greater first, NaN above all, the first among equals.
// Is a, found at i, to be taken instead of b, found at k? The greater; NaN above all; among equals the first.
WS_FN bool better(float a, int64_t i, float b, int64_t k) {
  if (a != a) return b == b || i < k;
  return b == b && (a > b || (a == b && i < k));
}
