//! Rows of keys or values of one head that lie in pages of a pool, found by a table of page numbers. Entries outside the pool read its first page,
//! where torch raises. Values: names of the pool and the table, the strides of what a copy of the pages would be, elements of a page.

struct $type_name : PlainRows {
  static constexpr int64_t PAGE = $page, PAGES = $operand_shape[0];
  const kv_t* pool;
  const $table_type* table;
  int64_t first;
  __device__ __forceinline__ $type_name(const Operands& o, int64_t head) : pool(o.$operand), table(o.$table), first(begin($stride, head)) {}
  __device__ __forceinline__ const kv_t* operator[](int64_t key) const {
    const int64_t offset = first + key * $stride[DIMS];
    int64_t entry = table[offset / PAGE];
    if ($wraps && entry < 0) entry += PAGES;
    if (entry < 0 || entry >= PAGES) entry = 0;
    return pool + entry * $operand_stride[0] + offset % PAGE;
  }
  // Neighbours that may be loaded at once, at most v.
  static constexpr int align(int v) { return ws::widest($operand_stride[0], ws::widest(PAGE, v)); }
};
