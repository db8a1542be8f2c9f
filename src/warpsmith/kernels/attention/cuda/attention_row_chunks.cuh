//! What lanes load of a row of keys or values at once: 8 neighbours, as the fragments of mma.sync have them.

typedef ws::Pack<uint32_t, 4> Chunk;  // 8 neighbours of a row
template <int V>
__device__ __forceinline__ Chunk load_chunk(const kv_t* row, int64_t n, int64_t width, int64_t stride) {
  Chunk chunk = {};
  if constexpr (V == 8) {
    if (n < width) chunk = ws::load_pack<4>(reinterpret_cast<const uint32_t*>(row + n));
  } else {
    ws::Pack<kv_t, 8> some;
#pragma unroll
    for (int i = 0; i < 8; i++) some.at[i] = n + i < width ? row[(n + i) * stride] : ws::store_as<kv_t>(0.0f);
    memcpy(&chunk, &some, sizeof chunk);
  }
  return chunk;
}
// Rows of half precision, which products take as they are.
struct PlainRows {
  typedef Chunk Raw;  // of 8 neighbours, as long as they are on their way
  struct Scale {};
  template <int V>
  static __device__ __forceinline__ Raw load(const kv_t* row, int64_t n, int64_t width, int64_t stride) { return load_chunk<V>(row, n, width, stride); }
  static __device__ __forceinline__ Scale scale_of(const kv_t*) { return {}; }
  static __device__ __forceinline__ Chunk widen(const Raw& raw, Scale) { return raw; }
};
