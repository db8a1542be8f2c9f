//! Factors of a 3xfp16 GEMM, split once: 128 x 64 tiles of two fp16 parts, each row scaled by a power of two, stored in
//! the workspace as wgmma reads them from 128-byte swizzled shared memory. $left, $right: operands; $images: tiles;
//! $left_map: map of elements.

constexpr int TILE = 128, IMAGE = 4 * TILE * BK, SCALES = 4 * TILE;  // bytes of a tile's parts, high and low, and scales
static_assert(BK == 64, "a row of a tile is 128 bytes");
constexpr int64_t DOWN = ws::ceil_div(M, (int64_t)TILE), OVER = ws::ceil_div(N, (int64_t)TILE);
constexpr int64_t TILES = BATCH * DOWN * OVER, WORK = TILES * PARTS;
constexpr int64_t LEFT_IMAGES = BATCH * DOWN * SLICES, IMAGES = $images;
static_assert(WORK < 0x7fffffff && IMAGES < 0x7fffffff, "requires: fewer than 2^31 tiles");
constexpr int64_t PARTS_ROOM = (SPLIT > 1 ? 4 * (int64_t)SPLIT * BATCH * M * N + 127 : 0) / 128 * 128;

// Eight terms of row r as halves, at their place in a tile, by the eight neighbours of a warp that have the row.
__device__ __forceinline__ void store_core_matrix_row(const float (&x)[8], unsigned char* image, int r, int k_vector, float* scales) {
  float most = 0.0f;
#pragma unroll
  for (int e = 0; e < 8; e++) most = fmaxf(most, fabsf(x[e]));
#pragma unroll
  for (int step = 1; step < 8; step *= 2) most = fmaxf(most, __shfl_xor_sync(ws::FULL, most, step));
  uint32_t bits;
  memcpy(&bits, &most, 4);
  const uint32_t exponent = bits >> 23 > 15 ? bits >> 23 : 15, up_bits = (268 - exponent) << 23, down_bits = (exponent - 14) << 23;
  float up, down;
  memcpy(&up, &up_bits, 4);
  memcpy(&down, &down_bits, 4);
  ws::Pack<__half, 8> high, low;
#pragma unroll
  for (int e = 0; e < 8; e++) {
    high.at[e] = __float2half_rn(x[e] * up);
    low.at[e] = __float2half_rn(x[e] * up - __half2float(high.at[e]));
  }
  unsigned char* const to = image + r * 128 + (k_vector ^ r % 8) * 16;
  ws::store_pack<8>(reinterpret_cast<__half*>(to), high);
  ws::store_pack<8>(reinterpret_cast<__half*>(to + IMAGE / 2), low);
  if (k_vector == 0) scales[r] = down;
}
// BK terms of up to TILE rows as halves. `from`: the first of both; `row(r)`: how far on row r begins; STEP: from one
// term to the next; COPY: floats that a load may take; `map(r)(x)`: what an element x of row r counts as.
template <bool ACROSS, int COPY, int64_t STEP, class Row, class Map>
__device__ __forceinline__ void split_tile(
    const float* from, const Row& row, const Map& map, int rows, int depth, float* turned, unsigned char* image,
    float* scales) {
  if constexpr (ACROSS) {  // neighbours are of different rows: turned round in shared memory
#pragma unroll 8
    for (int i = threadIdx.x; i < BK * TILE; i += 256) {
      const int k = i / TILE, r = i % TILE;
      turned[k * (TILE + 1) + r] = k < depth && r < rows ? from[row(r) + k * STEP] : 0.0f;
    }
    __syncthreads();
  }
  constexpr int ITEMS = TILE * BK / 8 / 256;
  const int k_vector = threadIdx.x % 8, k = 8 * k_vector;
  float x[ITEMS][8];
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    const int r = i * 32 + threadIdx.x / 8;
    const float* const at = from + row(r < rows ? r : 0) + k * STEP;
#pragma unroll
    for (int e = 0; e < 8; e += COPY) {
      ws::Pack<float, COPY> some = {};
      if constexpr (ACROSS) some.at[0] = turned[(k + e) * (TILE + 1) + r];
      else if (r < rows && k + e < depth) some = ws::load_pack<COPY>(at + e * STEP);
#pragma unroll
      for (int v = 0; v < COPY; v++) x[i][e + v] = some.at[v];
    }
  }
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    const int r = i * 32 + threadIdx.x / 8;
    const auto counts = map(r < rows ? r : 0);
#pragma unroll
    for (int e = 0; e < 8; e++)
      if (r < rows && k + e < depth) x[i][e] = counts(x[i][e]);
    store_core_matrix_row(x[i], image, r, k_vector, scales);
  }
}
__global__ void __launch_bounds__(256) split(Operands o, unsigned char* images) {
  __shared__ float turned[LEFT_ACROSS || RIGHT_ACROSS ? BK * (TILE + 1) : 1];
  const bool of_left = blockIdx.x < (unsigned)LEFT_IMAGES;
  const unsigned own = of_left ? blockIdx.x : blockIdx.x - (unsigned)LEFT_IMAGES, slice = own % (unsigned)SLICES;
  const unsigned line = own / (unsigned)SLICES, high = (unsigned)(of_left ? DOWN : OVER);
  const int64_t b = line / high, first = (int64_t)(line % high) * TILE, start = (int64_t)slice * BK;
  const int64_t left = (of_left ? M : N) - first;
  const int rows = (int)(left < TILE ? left : TILE), depth = (int)(K - start < BK ? K - start : BK);
  unsigned char* const image = images + (int64_t)blockIdx.x * IMAGE;
  float* const scales = reinterpret_cast<float*>(images + IMAGES * IMAGE + (int64_t)blockIdx.x * SCALES);
  const auto as_it_is = [](int) { return [](float x) { return x; }; };
  if (of_left)
    split_tile<LEFT_ACROSS, LEFT_ALONG ? LEFT_VEC : 1, LEFT_K>(
        o.$left + start * LEFT_K, [&](int r) { return left_at(b, first + r); }, $left_map, rows, depth, turned,
        image, scales);
  else
    split_tile<RIGHT_ACROSS, RIGHT_ALONG ? RIGHT_VEC : 1, RIGHT_K>(
        o.$right + right_at(b, 0) + first * RIGHT_N + start * RIGHT_K, [](int r) { return r * RIGHT_N; }, as_it_is, rows,
        depth, turned, image, scales);
}
