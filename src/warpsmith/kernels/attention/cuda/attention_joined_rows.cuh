//! Rows of keys or values of one head: those of a cache, then those that a step adds. Values: both operands, their strides, features of a row.

struct $type_name : PlainRows {
  static constexpr int64_t CACHED = $operand_shape[DIMS];
  static_assert($operand_stride[DIMS + 1] == 1 && $added_stride[DIMS + 1] == 1, "requires: dense rows");
  const kv_t* cache;
  const kv_t* added;
  __device__ __forceinline__ $type_name(const Operands& o, int64_t head) : cache(o.$operand + begin($operand_stride, head)), added(o.$added + begin($added_stride, head)) {}
  __device__ __forceinline__ const kv_t* operator[](int64_t key) const {
    return key < CACHED ? cache + key * $operand_stride[DIMS] : added + (key - CACHED) * $added_stride[DIMS];
  }
  static constexpr int align(int v) { return vector_of($added_stride, $width, v); }
};
