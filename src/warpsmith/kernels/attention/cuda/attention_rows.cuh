//! Rows of keys or values of one head, found by their strides. Values: the operand's name, its strides.

struct $type_name : PlainRows {
  const kv_t* start;
  __device__ __forceinline__ $type_name(const Operands& o, int64_t head) : start(o.$operand + begin($stride, head)) {}
  __device__ __forceinline__ const kv_t* operator[](int64_t key) const { return start + key * $stride[DIMS]; }
  static constexpr int align(int v) { return v; }
};
