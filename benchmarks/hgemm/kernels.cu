// Checks and times GEMM cubins beside cuBLASLt. Build: nvcc -std=c++17 -O2 -arch=sm_90 -I… kernels.cu -lcublasLt
//
//   kernels check VARIANTS SHAPES            each variant at each shape it covers, against a float32 reference
//   kernels time  VARIANTS SHAPES ROUNDS US  variants and the library in turns; cold caches, and graph replays of so many µs
//
// VARIANTS: lines "name cubin group along_n parts dependent". SHAPES: lines "m n k b_transposed bf16".
// Before anything that may hang, a line "BEGIN name m n k"; then a JSON line for each result.
#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "gemm_epilogue.cuh"
#include "tile_schedule.cuh"
#include "traits.h"

using Arguments = ws::sm90::GemmArguments<ws::sm90::PlainEpilogue>;
using ws::sm90::ceil_div;

[[noreturn]] static void fail(const char* what, const char* why, int line) {
  printf("{\"error\": \"%s: %s (line %d)\"}\n", what, why, line);
  fflush(stdout);
  exit(3);
}
static void expect(cudaError_t status, const char* what, int line) {
  if (status != cudaSuccess) fail(what, cudaGetErrorString(status), line);
}
static void expect(CUresult status, const char* what, int line) {
  if (status != CUDA_SUCCESS) fail(what, ("CUresult " + std::to_string((int)status)).c_str(), line);
}
static void expect(cublasStatus_t status, const char* what, int line) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(what, cublasLtGetStatusString(status), line);
}
#define EXPECT(call) expect((call), #call, __LINE__)

// The driver's functions by name, so that its library need not be linked.
static void* find_driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result;
  EXPECT(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &result));
  if (!function) fail(name, "the driver has no such function", __LINE__);
  return function;
}
#define DRIVER(name)                                                                  \
  ([] {                                                                               \
    static const auto function = (decltype(&name))find_driver_function(#name);        \
    return function;                                                                  \
  }())

constexpr size_t GUARD_BYTES = 4096, PARTIAL_BYTES = size_t{1} << 30, COUNTERS = 1 << 20, LIBRARY_WORKSPACE_BYTES = 64 << 20;
constexpr size_t FLUSH_BYTES = 256 << 20;

// ---- kernels of the driver ----
__device__ uint32_t hash(uint32_t x) {
  x ^= x >> 16, x *= 0x7feb352dU, x ^= x >> 15, x *= 0x846ca68bU, x ^= x >> 16;
  return x;
}
template <class T>
__global__ void fill_normal(T* to, size_t count, uint32_t seed) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
    const uint32_t a = hash((uint32_t)i * 2 + seed), b = hash((uint32_t)i * 2 + 1 + seed * 7);
    const float u = (a + 1.0f) * 2.3283064e-10f, v = b * 2.3283064e-10f;
    to[i] = (T)(sqrtf(-2.0f * logf(fminf(u, 1.0f))) * cospif(2.0f * v));
  }
}
// c = a b in float32, 64 x 64 a block; sums of 16 terms are added to a running sum.
template <class T>
__global__ void reference(float* c, const T* a, const T* b, int m, int n, int k, int b_transposed) {
  __shared__ float left[16][65], right[16][65];
  const int row = blockIdx.y * 64, column = blockIdx.x * 64, x = threadIdx.x % 16, y = threadIdx.x / 16;
  float sums[4][4] = {};
  for (int first = 0; first < k; first += 16) {
    for (int i = threadIdx.x; i < 1024; i += 256) {
      const int r = i / 16, d = i % 16, rb = b_transposed ? i / 16 : i % 64, db = b_transposed ? i % 16 : i / 64;
      left[d][r] = row + r < m && first + d < k ? (float)a[(size_t)(row + r) * k + first + d] : 0.0f;
      right[db][rb] = column + rb < n && first + db < k
                          ? (float)(b_transposed ? b[(size_t)(column + rb) * k + first + db] : b[(size_t)(first + db) * n + column + rb])
                          : 0.0f;
    }
    __syncthreads();
    float some[4][4] = {};
    for (int d = 0; d < 16; d++)
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) some[i][j] = fmaf(left[d][y * 4 + i], right[d][x + 16 * j], some[i][j]);
    for (int i = 0; i < 4; i++)
      for (int j = 0; j < 4; j++) sums[i][j] += some[i][j];
    __syncthreads();
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++)
      if (row + y * 4 + i < m && column + x + 16 * j < n) c[(size_t)(row + y * 4 + i) * n + column + x + 16 * j] = sums[i][j];
}
// totals: squares of differences, squares of the reference, elements that are not finite or far off.
template <class T>
__global__ void compare(const T* c, const float* truth, size_t count, float far, double* totals) {
  double difference = 0, squares = 0, bad = 0;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
    const float value = (float)c[i], d = value - truth[i];
    if (!(fabsf(d) <= far)) bad += 1;
    else difference += (double)d * d;
    squares += (double)truth[i] * truth[i];
  }
  atomicAdd(totals, difference), atomicAdd(totals + 1, squares), atomicAdd(totals + 2, bad);
}
__global__ void check_guard(const unsigned char* guard, size_t bytes, double* totals) {
  for (size_t i = threadIdx.x; i < bytes; i += blockDim.x)
    if (guard[i] != 0xff) atomicAdd(totals + 3, 1.0);
}
__global__ void read_all(const uint4* from, size_t count, unsigned* sink) {
  unsigned sum = 0;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) sum += from[i].x ^ from[i].w;
  if (sum == 0x12345678) *sink = sum;
}
__global__ void empty() {}

// ---- problems and variants ----
struct Shape {
  int m, n, k, b_transposed, bf16;
  std::vector<int> chosen;  // numbers of the variants to time; none: all
};
struct Variant {
  std::string name, cubin;
  int group, along_n, parts, dependent;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  GemmTraits traits{};
};

static std::vector<Shape> read_shapes(const char* path) {
  std::ifstream file(path);
  std::vector<Shape> shapes;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Shape s{};
    if (!(words >> s.m >> s.n >> s.k >> s.b_transposed >> s.bf16)) continue;
    for (int number; words >> number;) s.chosen.push_back(number);
    shapes.push_back(s);
  }
  return shapes;
}
static std::vector<Variant> read_variants(const char* path) {
  std::ifstream file(path);
  std::vector<Variant> variants;
  for (Variant v; file >> v.name >> v.cubin >> v.group >> v.along_n >> v.parts >> v.dependent;) variants.push_back(v);
  return variants;
}

struct Device {
  int multiprocessors;
  void *a[2], *b[2], *c, *flush;  // a, b: fp16, bf16
  float* truth;
  double* totals;
  int* counters;
  float* partial;
  unsigned char* library_workspace;
  cudaStream_t stream;
  cublasLtHandle_t library;
  size_t elements;

  explicit Device(const std::vector<Shape>& shapes) {
    size_t left = 0, right = 0, out = 0;
    for (const Shape& s : shapes) {
      left = std::max(left, (size_t)s.m * s.k), right = std::max(right, (size_t)s.n * s.k);
      out = std::max(out, (size_t)s.m * s.n);
    }
    EXPECT(cudaFree(nullptr));
    EXPECT(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    EXPECT(cudaStreamCreate(&stream));
    for (int t = 0; t < 2; t++) {
      EXPECT(cudaMalloc(&a[t], left * 2)), EXPECT(cudaMalloc(&b[t], right * 2));
      if (t == 0) fill_normal<<<1024, 256>>>((__half*)a[t], left, 1), fill_normal<<<1024, 256>>>((__half*)b[t], right, 2);
      else fill_normal<<<1024, 256>>>((__nv_bfloat16*)a[t], left, 3), fill_normal<<<1024, 256>>>((__nv_bfloat16*)b[t], right, 4);
    }
    EXPECT(cudaMalloc(&c, out * 4 + GUARD_BYTES)), EXPECT(cudaMalloc(&truth, out * 4)), EXPECT(cudaMalloc(&totals, 64));
    EXPECT(cudaMalloc(&partial, PARTIAL_BYTES)), EXPECT(cudaMalloc(&library_workspace, LIBRARY_WORKSPACE_BYTES));
    EXPECT(cudaMemset(partial, 0xff, PARTIAL_BYTES));
    EXPECT(cudaMalloc(&counters, COUNTERS * 4)), EXPECT(cudaMemset(counters, 0, COUNTERS * 4));
    EXPECT(cudaMalloc(&flush, FLUSH_BYTES)), EXPECT(cudaMemset(flush, 1, FLUSH_BYTES));
    EXPECT(cublasLtCreate(&library));
    EXPECT(cudaDeviceSynchronize());
  }
  void flush_cache() const { read_all<<<1056, 512, 0, stream>>>((const uint4*)flush, FLUSH_BYTES / 16, (unsigned*)totals + 12); }
};

static void load_variant(Variant& v, const Device& device) {
  if (v.kernel) return;
  EXPECT(DRIVER(cuModuleLoad)(&v.module, v.cubin.c_str()));
  EXPECT(DRIVER(cuModuleGetFunction)(&v.kernel, v.module, "gemm"));
  CUfunction describe;
  EXPECT(DRIVER(cuModuleGetFunction)(&describe, v.module, "describe"));
  GemmTraits* traits;
  EXPECT(cudaMalloc(&traits, sizeof(GemmTraits)));
  void* arguments[] = {&traits};
  EXPECT(DRIVER(cuLaunchKernel)(describe, 1, 1, 1, 1, 1, 1, 0, device.stream, arguments, nullptr));
  EXPECT(cudaStreamSynchronize(device.stream));
  EXPECT(cudaMemcpy(&v.traits, traits, sizeof(GemmTraits), cudaMemcpyDeviceToHost));
  EXPECT(cudaFree(traits));
  EXPECT(DRIVER(cuFuncSetAttribute)(v.kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, v.traits.shared_bytes));
  if (v.traits.split == 2 && v.parts > 8) EXPECT(DRIVER(cuFuncSetAttribute)(v.kernel, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
}

// Why a variant does not cover a shape; empty where it does.
static std::string reason_not(const Variant& v, const Shape& s) {
  const GemmTraits& t = v.traits;
  if (t.in != s.bf16) return "type";
  if (t.b_transposed != s.b_transposed) return "layout";
  const int b_pitch = s.b_transposed ? s.k : s.n;
  if (t.kind == MMA_SYNC) return s.k % t.vector_a || b_pitch % t.vector_b ? "pitch" : "";
  if (s.k % 8 || b_pitch % 8) return "pitch";
  if (t.tma_store && s.n % 8) return "pitch of the result";
  return "";
}

static CUtensorMap encode_map(const void* base, int type, int inner, int outer, int box_inner, int box_outer) {
  CUtensorMap map;
  const cuuint64_t extents[2] = {(cuuint64_t)inner, (cuuint64_t)outer}, pitch[1] = {(cuuint64_t)inner * 2};
  const cuuint32_t box[2] = {(cuuint32_t)box_inner, (cuuint32_t)box_outer}, steps[2] = {1, 1};
  const CUtensorMapSwizzle swizzle = box_inner == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : box_inner == 32 ? CU_TENSOR_MAP_SWIZZLE_64B
                                     : box_inner == 16 ? CU_TENSOR_MAP_SWIZZLE_32B : CU_TENSOR_MAP_SWIZZLE_NONE;
  EXPECT(DRIVER(cuTensorMapEncodeTiled)(&map, type == BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, (void*)base, extents,
                pitch, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

using Call = std::function<void(cudaStream_t)>;

// A launch, ready to be repeated; empty where it is impossible, with the reason.
static Call prepare(const Variant& v, const Shape& s, const Device& d, std::string& why) {
  struct Prepared {
    CUtensorMap left, right, result;
    Arguments arguments;
    CUlaunchConfig config;
    CUlaunchAttribute attributes[2];
  };
  const auto p = std::make_shared<Prepared>();
  const GemmTraits& t = v.traits;
  const void *a = d.a[s.bf16], *b = d.b[s.bf16];
  p->arguments = {s.m, s.n, s.k, v.group, v.along_n, v.parts, a, b, d.c, s.k, s.b_transposed ? s.k : s.n, s.n, d.counters, d.partial, {}};
  p->config = {};
  p->config.blockDimX = t.threads, p->config.blockDimY = p->config.blockDimZ = 1;
  p->config.gridDimY = p->config.gridDimZ = 1;
  p->config.sharedMemBytes = t.shared_bytes;
  p->config.attrs = p->attributes;
  const int rows = t.swap_ab ? s.n : s.m, columns = t.swap_ab ? s.m : s.n;
  const int cluster = t.split == 2 ? v.parts : t.cluster_m * t.cluster_n;
  const int64_t cluster_tiles =
      (int64_t)ceil_div(rows, t.tile_m * t.cluster_m) * ceil_div(columns, t.tile_n * t.cluster_n);
  const int64_t tiles = cluster_tiles * t.cluster_m * t.cluster_n;
  const size_t partial_bytes = (size_t)tiles * v.parts * t.tile_m * t.tile_n * 4;
  if (t.split == 1 && v.parts > 1 && (partial_bytes > PARTIAL_BYTES || (size_t)tiles * t.counters_per_tile > COUNTERS))
    return why = "workspace", nullptr;
  if (t.split == 0 && v.parts != 1) return why = "no split-K", nullptr;
  if (cluster > 1) {
    CUlaunchAttribute& shape = p->attributes[p->config.numAttrs++];
    shape.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    shape.value.clusterDim.x = cluster, shape.value.clusterDim.y = shape.value.clusterDim.z = 1;
  }
  int64_t blocks = tiles * v.parts;
  if (t.kind == TMA_WGMMA) {
    int resident = 0;
    p->config.gridDimX = cluster;
    if (cluster > 1) {
      EXPECT(DRIVER(cuOccupancyMaxActiveClusters)(&resident, v.kernel, &p->config));
      resident *= cluster;
    } else {
      EXPECT(DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&resident, v.kernel, t.threads, t.shared_bytes));
      resident *= d.multiprocessors;
    }
    if (resident == 0) return why = "does not fit", nullptr;
    if (t.split != 2) blocks = std::min<int64_t>(blocks, resident);
  }
  p->config.gridDimX = (unsigned)blocks;
  if (t.kind == MMA_SYNC)
    p->config.gridDimX = ceil_div(s.m, t.tile_m), p->config.gridDimY = ceil_div(s.n, t.tile_n), p->config.gridDimZ = v.parts;
  if (v.dependent) {
    CUlaunchAttribute& overlap = p->attributes[p->config.numAttrs++];
    overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    overlap.value.programmaticStreamSerializationAllowed = 1;
  }
  if (t.kind == TMA_WGMMA) {
    const void *left = t.swap_ab ? b : a, *right = t.swap_ab ? a : b;
    p->left = encode_map(left, t.in, t.left_mn_major ? rows : s.k, t.left_mn_major ? s.k : rows, t.left_box_inner, t.left_box_outer);
    p->right = encode_map(right, t.in, t.right_mn_major ? columns : s.k, t.right_mn_major ? s.k : columns, t.right_box_inner,
                          t.right_box_outer);
    if (t.tma_store) p->result = encode_map(d.c, t.out, s.n, s.m, t.store_box_inner, t.store_box_outer);
  }
  const CUfunction kernel = v.kernel;
  const bool mapped = t.kind == TMA_WGMMA;
  return [p, kernel, mapped](cudaStream_t stream) {
    p->config.hStream = stream;
    void* with_maps[] = {&p->left, &p->right, &p->result, &p->arguments};
    void* without[] = {&p->arguments};
    EXPECT(DRIVER(cuLaunchKernelEx)(&p->config, kernel, mapped ? with_maps : without, nullptr));
  };
}

// ---- the library ----
struct Library {
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t left, right, out;
  std::vector<cublasLtMatmulHeuristicResult_t> choices;

  // Row-major c = a b is column-major cᵀ = bᵀ aᵀ.
  Library(const Shape& s, const Device& d) {
    const cudaDataType_t type = s.bf16 ? CUDA_R_16BF : CUDA_R_16F;
    EXPECT(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t transposed = s.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    EXPECT(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
    if (s.b_transposed) EXPECT(cublasLtMatrixLayoutCreate(&left, type, s.k, s.n, s.k));
    else EXPECT(cublasLtMatrixLayoutCreate(&left, type, s.n, s.k, s.n));
    EXPECT(cublasLtMatrixLayoutCreate(&right, type, s.k, s.m, s.k));
    EXPECT(cublasLtMatrixLayoutCreate(&out, type, s.n, s.m, s.n));
    cublasLtMatmulPreference_t preference;
    EXPECT(cublasLtMatmulPreferenceCreate(&preference));
    const size_t bytes = LIBRARY_WORKSPACE_BYTES;
    EXPECT(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes));
    choices.resize(128);
    int count = 0;
    EXPECT(cublasLtMatmulAlgoGetHeuristic(d.library, operation, left, right, out, out, preference, (int)choices.size(), choices.data(), &count));
    choices.resize(count);
    cublasLtMatmulPreferenceDestroy(preference);
  }
  Library(const Library&) = delete;
  ~Library() {
    cublasLtMatmulDescDestroy(operation);
    for (cublasLtMatrixLayout_t layout : {left, right, out}) cublasLtMatrixLayoutDestroy(layout);
  }
  cublasStatus_t run(int choice, const Shape& s, const Device& d, cudaStream_t stream) const {
    const float one = 1, zero = 0;
    return cublasLtMatmul(d.library, operation, &one, d.b[s.bf16], left, d.a[s.bf16], right, &zero, d.c, out, d.c, out,
                          &choices[choice].algo, d.library_workspace, LIBRARY_WORKSPACE_BYTES, stream);
  }
};

// ---- measures ----
struct Clock {
  cudaEvent_t begin, end;
  Clock() { EXPECT(cudaEventCreate(&begin)), EXPECT(cudaEventCreate(&end)); }
  float us() const {
    float ms;
    EXPECT(cudaEventSynchronize(end)), EXPECT(cudaEventElapsedTime(&ms, begin, end));
    return ms * 1000;
  }
};
static float median(std::vector<float> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? NAN : values[values.size() / 2];
}
static float time_cold(const Call& call, const Device& d, const Clock& clock) {
  d.flush_cache();  // the device is busy until all is enqueued
  EXPECT(cudaEventRecord(clock.begin, d.stream));
  call(d.stream);
  EXPECT(cudaEventRecord(clock.end, d.stream));
  return clock.us();
}
struct Replay {
  cudaGraphExec_t graph = nullptr;
  int calls;
  Replay(const Call& call, const Device& d, int calls) : calls(calls) {
    cudaGraph_t captured;
    EXPECT(cudaStreamBeginCapture(d.stream, cudaStreamCaptureModeRelaxed));
    for (int i = 0; i < calls; i++) call(d.stream);
    EXPECT(cudaStreamEndCapture(d.stream, &captured));
    EXPECT(cudaGraphInstantiate(&graph, captured, 0));
    EXPECT(cudaGraphDestroy(captured));
  }
  Replay(const Replay&) = delete;
  ~Replay() { cudaGraphExecDestroy(graph); }
  float us(const Device& d, const Clock& clock) const {
    EXPECT(cudaEventRecord(clock.begin, d.stream));
    EXPECT(cudaGraphLaunch(graph, d.stream));
    EXPECT(cudaEventRecord(clock.end, d.stream));
    return clock.us() / calls;
  }
};

static void say_begin(const std::string& name, const Shape& s) {
  printf("BEGIN %s %d %d %d %d %d\n", name.c_str(), s.m, s.n, s.k, s.b_transposed, s.bf16);
  fflush(stdout);
}

// Computes the reference once for each shape.
static void compute_truth(const Shape& s, const Device& d) {
  static std::tuple<int, int, int, int, int> last{};
  const auto now = std::make_tuple(s.m, s.n, s.k, s.b_transposed, s.bf16);
  if (now == last) return;
  const dim3 grid(ceil_div(s.n, 64), ceil_div(s.m, 64));
  if (s.bf16) reference<<<grid, 256, 0, d.stream>>>(d.truth, (const __nv_bfloat16*)d.a[1], (const __nv_bfloat16*)d.b[1], s.m, s.n, s.k, s.b_transposed);
  else reference<<<grid, 256, 0, d.stream>>>(d.truth, (const __half*)d.a[0], (const __half*)d.b[0], s.m, s.n, s.k, s.b_transposed);
  EXPECT(cudaStreamSynchronize(d.stream));
  last = now;
}
struct Error {
  double relative;  // Frobenius
  long wrong, outside;
};
static Error measure_error(const Call& call, const Shape& s, int type, const Device& d) {
  compute_truth(s, d);
  const size_t count = (size_t)s.m * s.n, bytes = count * (type == FP32 ? 4 : 2);
  EXPECT(cudaMemsetAsync(d.c, 0xff, bytes + GUARD_BYTES, d.stream));  // not numbers
  EXPECT(cudaMemsetAsync(d.totals, 0, 32, d.stream));
  call(d.stream);
  const float far = 0.5f + 0.05f * std::sqrt((float)s.k);
  if (type == FP32) compare<<<512, 256, 0, d.stream>>>((const float*)d.c, d.truth, count, far, d.totals);
  else if (type == BF16) compare<<<512, 256, 0, d.stream>>>((const __nv_bfloat16*)d.c, d.truth, count, far, d.totals);
  else compare<<<512, 256, 0, d.stream>>>((const __half*)d.c, d.truth, count, far, d.totals);
  check_guard<<<1, 256, 0, d.stream>>>((const unsigned char*)d.c + bytes, GUARD_BYTES, d.totals);
  double totals[4];
  EXPECT(cudaMemcpyAsync(totals, d.totals, 32, cudaMemcpyDeviceToHost, d.stream));
  EXPECT(cudaStreamSynchronize(d.stream));
  return {std::sqrt(totals[0] / totals[1]), (long)totals[2], (long)totals[3]};
}
static void say_place(const std::string& name, const Shape& s) {
  printf("{\"name\": \"%s\", \"m\": %d, \"n\": %d, \"k\": %d, \"b_transposed\": %d, \"bf16\": %d, ", name.c_str(), s.m, s.n, s.k, s.b_transposed, s.bf16);
}

static void check(std::vector<Variant>& variants, const std::vector<Shape>& shapes) {
  const Device device(shapes);
  for (Variant& v : variants) {
    for (const Shape& s : shapes) {
      say_begin(v.name, s);
      load_variant(v, device);
      if (!reason_not(v, s).empty()) continue;
      std::string why;
      const Call call = prepare(v, s, device, why);
      if (!call) {
        say_place(v.name, s);
        printf("\"status\": \"left out: %s\"}\n", why.c_str());
        continue;
      }
      // Rounding to fp16 makes 2.0e-4 of it, to bf16 1.7e-3.
      const double limit = v.traits.out == BF16 ? 2.0e-3 : 2.5e-4;
      Error worst{};
      for (int again = 0; again < 2; again++) {  // the second time shows what the first left in the workspace
        const Error e = measure_error(call, s, v.traits.out, device);
        if (!(e.relative <= worst.relative)) worst.relative = e.relative;
        worst.wrong += e.wrong, worst.outside += e.outside;
      }
      const bool right = worst.relative <= limit && worst.wrong == 0 && worst.outside == 0;
      say_place(v.name, s);
      printf("\"status\": \"%s\", \"error\": %.3e, \"wrong\": %ld, \"outside\": %ld}\n", right ? "right" : "WRONG", worst.relative, worst.wrong, worst.outside);
      fflush(stdout);
    }
    if (v.module) EXPECT(DRIVER(cuModuleUnload)(v.module)), v.module = nullptr, v.kernel = nullptr;
  }
}

struct Entrant {
  std::string name;
  Call call;
  std::unique_ptr<Replay> replay;
  std::vector<float> cold, warm;
};

// The library's choices that are quickest with cold caches and in graph replay: two looks at each, then five at the best eight.
static std::pair<int, int> autotune(const Library& library, const Shape& s, int calls, const Device& d, const Clock& clock) {
  const auto call_of = [&](int choice) { return [&, choice](cudaStream_t stream) { library.run(choice, s, d, stream); }; };
  std::vector<std::pair<float, int>> cold, warm;
  for (int i = 0; i < (int)library.choices.size(); i++) {
    say_begin("library", s);  // a sign of life
    if (library.run(i, s, d, d.stream) != CUBLAS_STATUS_SUCCESS) continue;
    cold.emplace_back(std::min(time_cold(call_of(i), d, clock), time_cold(call_of(i), d, clock)), i);
  }
  if (cold.empty()) fail("cublasLtMatmul", "no choice runs", __LINE__);
  std::sort(cold.begin(), cold.end());
  cold.resize(std::min<size_t>(cold.size(), 8));
  for (auto& [us, choice] : cold) {
    std::vector<float> cold_us, warm_us;
    const Replay replay(call_of(choice), d, calls);
    for (int again = 0; again < 5; again++) cold_us.push_back(time_cold(call_of(choice), d, clock)), warm_us.push_back(replay.us(d, clock));
    us = median(cold_us);
    warm.emplace_back(median(warm_us), choice);
  }
  return {std::min_element(cold.begin(), cold.end())->second, std::min_element(warm.begin(), warm.end())->second};
}

static void time_shape(std::vector<Variant>& variants, const Shape& s, int rounds, double replay_us, const Device& device,
                       const Clock& clock) {
  say_begin("library", s);
  const Library library(s, device);
  const double floor_us = std::max(2e-6 * s.m * (double)s.n * s.k / 790, 2e-6 * ((double)s.m * s.k + (double)s.n * s.k + (double)s.m * s.n) / 3.35);
  const int calls = (int)std::min(200.0, std::max(2.0, replay_us / std::max(floor_us, 2.0)));
  const std::pair<int, int> best = autotune(library, s, calls, device, clock);
  std::vector<Entrant> entrants;
  const auto add = [&](const std::string& name, Call call) {
    Entrant e{name, call, nullptr, {}, {}};
    e.replay = std::make_unique<Replay>(call, device, calls);
    entrants.push_back(std::move(e));
  };
  add("empty", [](cudaStream_t stream) { empty<<<1, 32, 0, stream>>>(); });
  add("cublaslt_heuristic", [&](cudaStream_t stream) { EXPECT(library.run(0, s, device, stream)); });
  add("cublaslt_autotuned", [&](cudaStream_t stream) { EXPECT(library.run(best.first, s, device, stream)); });
  add("cublaslt_autotuned_replay", [&](cudaStream_t stream) { EXPECT(library.run(best.second, s, device, stream)); });
  const auto enter = [&](Variant& v) {
    load_variant(v, device);
    std::string why = reason_not(v, s);
    const Call call = why.empty() ? prepare(v, s, device, why) : nullptr;
    if (call) add(v.name, call);
  };
  if (s.chosen.empty())
    for (Variant& v : variants) enter(v);
  for (int number : s.chosen) enter(variants.at(number));
  for (int round = 0; round < rounds + 1; round++)  // the first is a warm-up
    for (Entrant& e : entrants) {
      say_begin(e.name, s);
      const float cold = time_cold(e.call, device, clock), warm = e.replay->us(device, clock);
      if (round > 0) e.cold.push_back(cold), e.warm.push_back(warm);
    }
  for (const Entrant& e : entrants) {
    say_place(e.name, s);
    printf("\"cold_us\": %.3f, \"cold_least_us\": %.3f, \"replay_us\": %.3f, \"replay_least_us\": %.3f, \"rounds\": %d, \"floor_us\": %.3f}\n",
           median(e.cold), *std::min_element(e.cold.begin(), e.cold.end()), median(e.warm),
           *std::min_element(e.warm.begin(), e.warm.end()), rounds, floor_us);
  }
  fflush(stdout);
}

int main(int count, char** words) {
  const std::string mode = count > 1 ? words[1] : "";
  if (!(mode == "check" && count == 4) && !(mode == "time" && count == 6)) {
    fprintf(stderr, "usage: kernels check VARIANTS SHAPES | kernels time VARIANTS SHAPES ROUNDS US\n");
    return 2;
  }
  std::vector<Variant> variants = read_variants(words[2]);
  const std::vector<Shape> shapes = read_shapes(words[3]);
  if (mode == "check") check(variants, shapes);
  else {
    const Device device(shapes);
    const Clock clock;
    cudaDeviceProp properties;
    EXPECT(cudaGetDeviceProperties(&properties, 0));
    printf("{\"device\": \"%s\", \"multiprocessors\": %d, \"library\": %zu}\n", properties.name, device.multiprocessors, cublasLtGetVersion());
    for (const Shape& s : shapes) time_shape(variants, s, std::max(1, atoi(words[4])), atof(words[5]), device, clock);
  }
  printf("DONE\n");
  return 0;
}
