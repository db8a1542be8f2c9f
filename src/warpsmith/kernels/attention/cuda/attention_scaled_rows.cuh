//! Rows of keys or values of one head, stored in 8 bits with a scale for each row: widened and scaled in registers, in pairs, and rounded as the graph's product is. Values: both
//! operands, their types, the scale's strides.

struct $type_name {
  typedef ws::Raw<$operand_type, 8> Raw;
  typedef ws::Pair<kv_t> Scale;
  struct Row {
    const $operand_type* elements;
    const $scale_type* scale;
  };
  const $operand_type* start;
  const $scale_type* scales;
  __device__ __forceinline__ $type_name(const Operands& o, int64_t head) : start(o.$operand + begin($operand_stride, head)), scales(o.$scale + begin($scale_steps, head)) {}
  __device__ __forceinline__ Row operator[](int64_t key) const { return {start + key * $operand_stride[DIMS], scales + key * $scale_steps[DIMS]}; }
  template <int V>
  static __device__ __forceinline__ Raw load(const Row& row, int64_t n, int64_t width, int64_t stride) {
    Raw raw{};
    if constexpr (V == 8) {
      if (n < width) {
        const ws::Pack<uint32_t, 2> words = ws::load_pack<2>(reinterpret_cast<const uint32_t*>(row.elements + n));
        raw.words[0] = words.at[0], raw.words[1] = words.at[1];
      }
    } else {
      ws::Pack<$operand_type, 8> some{};
#pragma unroll
      for (int i = 0; i < 8; i++)
        if (n + i < width) some.at[i] = row.elements[(n + i) * stride];
      memcpy(raw.words, &some, sizeof some);
    }
    return raw;
  }
  static __device__ __forceinline__ Scale scale_of(const Row& row) { return ws::splat_pair(*row.scale); }
  static __device__ __forceinline__ Chunk widen(const Raw& raw, Scale scale) {
    Chunk chunk;
#pragma unroll
    for (int i = 0; i < 4; i++) chunk.at[i] = (ws::pair_at<kv_t>(raw, i) * scale).bits;
    return chunk;
  }
  static constexpr int align(int v) { return v; }
};
