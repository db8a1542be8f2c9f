//! Source elements and weight of an output element of an interpolation, linear or nearest, rounded in float32 as ATen does.
// Where output element o comes from: two neighbours and the weight of the second. As torch rounds: in float32.
struct Spot { int64_t first, second; float weight; };
WS_FN Spot linear(int64_t o, int64_t in, int64_t out, float scale, bool corners) {
  if (in == out) return {o, o, 0.0f};
  float x = corners ? scale * (float)o : scale * ((float)o + 0.5f) - 0.5f;
  x = x < 0.0f ? 0.0f : x;
  const int64_t first = (int64_t)x < in - 1 ? (int64_t)x : in - 1;
  const float weight = x - (float)first;
  return {first, first + (first < in - 1), weight < 1.0f ? weight : 1.0f};
}
WS_FN Spot nearest(int64_t o, int64_t in, int64_t, float scale, bool) {
  const int64_t first = (int64_t)((float)o * scale);
  return first < in - 1 ? Spot{first, first, 0.0f} : Spot{in - 1, in - 1, 0.0f};
}
