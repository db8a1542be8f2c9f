//! Weights of a small-M GEMM: rows of N from global to shared memory, and as fragments. Values: at most how many neighbours are read together, what a row and a place
//! of it are as an index of the value that the chain makes, whether what it takes beside elements is one for a row; the statement that copies.
constexpr int WEIGHT_V = ws::widest($width, VEC), WEIGHT_PACKS = VEC / WEIGHT_V;  // neighbours of a row that are read together; so many times for a step
constexpr int PLACE_PITCH = 16 * BLOCK;                                            // bytes from a place of a thread to its next
constexpr bool PERMUTE = PERMUTED<WEIGHT_V>;                                       // of 8 neighbours along K the pairs are (0, 4), (1, 5), (2, 6), (3, 7)
constexpr bool WHOLE_K = K == PARTS * SHARE * BK, SAME_ALONG_ROWS = $same_along_rows;
// What a row's step takes beside its elements: scales and zero points, the same for all that a lane has of it.
struct Uniform {
  prologue0_uniform pack[WEIGHT_PACKS];
};
__device__ __forceinline__ bool inside(int64_t n, int64_t k) { return (N % ROWS == 0 || n < N) && (WHOLE_K || k < K); }
__device__ __forceinline__ void place_weight(int64_t n, int64_t k, int64_t (&at)[$weight_rank]) {
  $at
}
// Of two weights each second row of a lane is the other's.
__device__ __forceinline__ bool is_second(int i) { return WEIGHTS == 2 && i % 2 == 1; }
__device__ __forceinline__ void copy_weight(const Operands& o, [[maybe_unused]] bool second, int64_t n, int64_t k, unsigned char* to) {
#pragma unroll
  for (int i = 0; i < WEIGHT_PACKS; i++, k += WEIGHT_V) {
    int64_t at[$weight_rank];
    place_weight(n, k, at);
    $copy
  }
}
__device__ __forceinline__ void read_uniform(const Operands& o, int64_t n, int64_t k, Uniform& uniform) {
#pragma unroll
  for (int i = 0; i < WEIGHT_PACKS; i++, k += WEIGHT_V) {
    int64_t at[$weight_rank];
    place_weight(N % ROWS == 0 || n < N ? n : N - 1, WHOLE_K || k < K ? k : K - WEIGHT_V, at);
    uniform.pack[i] = prologue0_read_uniform<WEIGHT_V>(o, at);
  }
}
// Zeros beyond K, where a scale need not be a number.
__device__ __forceinline__ void make_weight(const Uniform& uniform, int64_t k, const unsigned char* from, uint32_t (&bits)[VEC / 2]) {
  constexpr int PAIRS = WEIGHT_V / 2;
  if constexpr (PAIRS == 0)
    for (int i = 0; i < VEC / 2; i++) bits[i] = 0;
#pragma unroll
  for (int i = 0; i < WEIGHT_PACKS; i++, k += WEIGHT_V) {
    ws::Halves<WEIGHT_V> some = prologue0_made<WEIGHT_V>(uniform.pack[i], from, PLACE_PITCH, i);
    if constexpr (!WHOLE_K)
      if (k >= K) some = ws::Halves<WEIGHT_V>{};
    if constexpr (PAIRS == 0) bits[i / 2] |= some.pair[0] << 16 * (i % 2);
#pragma unroll
    for (int p = 0; p < PAIRS; p++) bits[i * PAIRS + p] = some.pair[p];
  }
}
