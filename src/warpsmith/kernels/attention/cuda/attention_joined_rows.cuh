//! Rows of keys or values of one head: those of a cache, then those that a step adds. Values: both operands, their strides, features of a row.

struct $type_name {
  static constexpr int64_t CACHED = ${operand}_shape[DIMS];
  static_assert(${operand}_stride[DIMS + 1] == 1 && ${added}_stride[DIMS + 1] == 1, "requires: dense rows");
  const kv_t* cache;
  const kv_t* added;
  __device__ __forceinline__ $type_name(const Operands& o, int64_t head) : cache(o.$operand + begin(${operand}_stride, head)), added(o.$added + begin(${added}_stride, head)) {}
  __device__ __forceinline__ const kv_t* operator[](int64_t key) const {
    return key < CACHED ? cache + key * ${operand}_stride[DIMS] : added + (key - CACHED) * ${added}_stride[DIMS];
  }
  static constexpr int align(int v) { return vector_of(${added}_stride, $width, v); }
};
