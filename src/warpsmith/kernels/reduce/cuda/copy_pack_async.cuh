//! Copy of a pack to shared memory by cp.async where whole words allow it. $copy: the function; $flag: its last
//! parameter.
// A pack to shared memory beside the arithmetic, where it can be copied in whole words.
template <class T>
constexpr bool copied = V * sizeof(T) == 4 || V * sizeof(T) == 8 || V * sizeof(T) % 16 == 0;
template <bool COPIED, class T>
__device__ __forceinline__ void copy_pack(ws::Pack<T, V>* to, const T* from, bool $flag = true) {
  constexpr int BYTES = V * sizeof(T) < 16 ? V * sizeof(T) : 16;
  if constexpr (COPIED)
    for (int i = 0; i < (int)(V * sizeof(T)) / BYTES; i++)
      ws::$copy<BYTES>((char*)to + i * BYTES, (const char*)from + i * BYTES, $flag);
}
