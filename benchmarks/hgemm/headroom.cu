//! Times cuBLAS and cuBLASLt on half-precision products: shapes "M N K" come on standard input, one JSON line each goes out.
//!
//! headroom measure|check nn|tn WORKSPACE_MIB ALGORITHMS MEASURE_MS any|fp32
//!
//! C = A B with fp16 operands and output and CUBLAS_COMPUTE_32F. A (M x K) and C (M x N) are row-major; B is row-major
//! (nn) or its transpose is (tn). The libraries are column-major, so that they compute the transpose of C = (transpose
//! of B) (transpose of A). alpha and beta are floats, and so is cuBLASLt's scale type.
//! The first line out describes the device. Each call of a library is queued well before the device comes to it.

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace {

constexpr size_t MAX_SIDE = 16384;
constexpr size_t POOL_ELEMENTS = MAX_SIDE * MAX_SIDE;  // of each operand; what is smaller rotates through it
constexpr size_t EVICTION = 4;                         // times the L2 cache that is read before a cold call
constexpr long long LEAD_CYCLES = 600'000;             // some 0.3 ms in which the host queues the first calls
constexpr double GRAPH_US = 1000.0;                    // that a graph's calls take together, if there are enough of them
constexpr int MIN_NODES = 2, MAX_NODES = 256;          // calls of a graph
constexpr int BATCH = 16;                              // calls of a warm batch while algorithms are screened
constexpr double BATCHED_BELOW_US = 30.0;              // longer products are screened by their cold calls alone
constexpr double SCREENED_AGAIN = 1.3;                 // times the best: slower algorithms are not called again
constexpr int FINALISTS = 3;                           // algorithms that go on, by cold calls and by warm batches
constexpr int MIN_REPEATS = 5, MAX_REPEATS = 100, MIN_ROUGH = 3, MAX_ROUGH = 24;
constexpr int BLOCK = 256;

// ---------------------------------------------------------------- errors

[[noreturn]] void fail(const std::string& message) {
    std::printf("{\"error\": \"%s\"}\n", message.c_str());
    std::fflush(stdout);
    std::_Exit(1);
}

void check(cudaError_t status, const char* call) {
    if (status != cudaSuccess) fail(std::string(call) + ": " + cudaGetErrorString(status));
}

void check(cublasStatus_t status, const char* call) {
    if (status != CUBLAS_STATUS_SUCCESS) fail(std::string(call) + ": " + cublasGetStatusString(status));
}

#define CHECK(call) check((call), #call)

std::string format(const char* pattern, ...) {
    char text[1024];
    va_list values;
    va_start(values, pattern);
    std::vsnprintf(text, sizeof text, pattern, values);
    va_end(values);
    return text;
}

// ---------------------------------------------------------------- kernels

__device__ uint64_t hash(uint64_t x) {  // splitmix64
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

/// Fills memory with N(0, 1): Box-Muller over a hash of the position.
__global__ void fill_normal(__half2* out, size_t pairs, uint64_t seed) {
    const size_t step = size_t(gridDim.x) * blockDim.x;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < pairs; i += step) {
        const uint64_t bits = hash(seed + i);
        const float u = (float(uint32_t(bits) >> 8) + 1.0f) * 0x1p-24f;  // in (0, 1]
        const float turn = float(uint32_t(bits >> 32) >> 8) * 0x1p-23f;  // in [0, 2) half turns
        const float radius = sqrtf(-2.0f * logf(u));
        out[i] = __floats2half2_rn(radius * cospif(turn), radius * sinpif(turn));
    }
}

/// Evicts the L2 cache with clean lines: nothing is left to write back while the next call runs.
__global__ void read_all(const uint4* data, size_t count, uint32_t* sink) {
    uint32_t mixed = 0;
    const size_t step = size_t(gridDim.x) * blockDim.x;
#pragma unroll 4
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        const uint4 v = data[i];
        mixed |= v.x | v.y | v.z | v.w;
    }
    if (mixed != 0) *sink = mixed;  // the memory holds zeros
}

__global__ void wait_cycles(long long cycles) {
    const long long begin = clock64();
    while (clock64() - begin < cycles) {
    }
}

__global__ void do_nothing() {}

/// Adds the squares of a - b, and of b, to two sums.
__global__ void add_squares(const __half* a, const __half* b, size_t count, double* sums) {
    double apart = 0.0, size = 0.0;
    const size_t step = size_t(gridDim.x) * blockDim.x;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        const float x = __half2float(a[i]), y = __half2float(b[i]);
        apart += double(x - y) * double(x - y);
        size += double(y) * double(y);
    }
    for (int lane = 16; lane > 0; lane /= 2) {
        apart += __shfl_down_sync(~0u, apart, lane);
        size += __shfl_down_sync(~0u, size, lane);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(&sums[0], apart);
        atomicAdd(&sums[1], size);
    }
}

// ---------------------------------------------------------------- the device and its memory

struct Options {
    bool checks, b_transposed, reduces_in_fp32;
    size_t workspace_bytes;
    int algorithms;
    double measure_us;
};

struct Device {
    cudaDeviceProp properties;
    cudaStream_t stream;
    cublasHandle_t cublas;
    cublasLtHandle_t lt;
    __half *a, *b, *c, *reference;
    void* workspace;
    uint4* eviction;
    size_t eviction_count;
    uint32_t* sink;
    double* sums;
    int blocks;
    double eviction_us;
    std::vector<cudaEvent_t> events;

    cudaEvent_t event(size_t index) {
        while (events.size() <= index) {
            cudaEvent_t created;
            CHECK(cudaEventCreate(&created));
            events.push_back(created);
        }
        return events[index];
    }
    void evict() {
        read_all<<<blocks, BLOCK, 0, stream>>>(eviction, eviction_count, sink);
        CHECK(cudaGetLastError());
    }
    void lead() {
        wait_cycles<<<1, 1, 0, stream>>>(LEAD_CYCLES);
        CHECK(cudaGetLastError());
    }
    void wait() { CHECK(cudaStreamSynchronize(stream)); }
};

template <typename T>
T* allocate(size_t count) {
    void* memory = nullptr;
    CHECK(cudaMalloc(&memory, count * sizeof(T)));
    return static_cast<T*>(memory);
}

double elapsed_us(Device& device, size_t pair) {
    float milliseconds = 0.0f;
    CHECK(cudaEventElapsedTime(&milliseconds, device.event(2 * pair), device.event(2 * pair + 1)));
    return milliseconds * 1e3;
}

void open_libraries(Device& d, const Options& options) {
    CHECK(cublasCreate(&d.cublas));
    CHECK(cublasLtCreate(&d.lt));
    CHECK(cublasSetStream(d.cublas, d.stream));  // resets the workspace, so that it comes first
    CHECK(cublasSetWorkspace(d.cublas, d.workspace, options.workspace_bytes));
    const int mode = CUBLAS_DEFAULT_MATH | (options.reduces_in_fp32 ? CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION : 0);
    CHECK(cublasSetMathMode(d.cublas, static_cast<cublasMath_t>(mode)));
}

Device open_device(const Options& options) {
    Device d{};
    CHECK(cudaSetDevice(0));
    CHECK(cudaGetDeviceProperties(&d.properties, 0));
    CHECK(cudaStreamCreateWithFlags(&d.stream, cudaStreamNonBlocking));
    d.blocks = d.properties.multiProcessorCount * 8;
    for (__half** pool : {&d.a, &d.b, &d.c, &d.reference}) *pool = allocate<__half>(POOL_ELEMENTS);
    d.workspace = allocate<char>(options.workspace_bytes);
    d.eviction_count = EVICTION * size_t(d.properties.l2CacheSize) / sizeof(uint4);
    d.eviction = allocate<uint4>(d.eviction_count);
    d.sink = allocate<uint32_t>(1);
    d.sums = allocate<double>(2);
    CHECK(cudaMemsetAsync(d.eviction, 0, d.eviction_count * sizeof(uint4), d.stream));
    open_libraries(d, options);
    fill_normal<<<d.blocks, BLOCK, 0, d.stream>>>(reinterpret_cast<__half2*>(d.a), POOL_ELEMENTS / 2, 0);
    fill_normal<<<d.blocks, BLOCK, 0, d.stream>>>(reinterpret_cast<__half2*>(d.b), POOL_ELEMENTS / 2, POOL_ELEMENTS);
    CHECK(cudaGetLastError());
    d.evict();
    CHECK(cudaEventRecord(d.event(0), d.stream));
    d.evict();
    CHECK(cudaEventRecord(d.event(1), d.stream));
    d.wait();
    d.eviction_us = elapsed_us(d, 0);
    return d;
}

void describe_device(Device& d) {
    std::vector<__half> sample(1 << 20);
    double sum = 0.0, squares = 0.0;
    CHECK(cudaMemcpy(sample.data(), d.a, sample.size() * sizeof(__half), cudaMemcpyDeviceToHost));
    for (const __half value : sample) {
        const double x = __half2float(value);
        sum += x;
        squares += x * x;
    }
    int driver = 0, runtime = 0, cublas = 0;
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaRuntimeGetVersion(&runtime));
    CHECK(cublasGetVersion(d.cublas, &cublas));
    std::printf(
        "{\"device\": \"%s\", \"sm_count\": %d, \"l2_bytes\": %d, \"driver\": %d, \"runtime\": %d, \"cublas\": %d, \"cublaslt\": %zu, "
        "\"eviction_us\": %.1f, \"input_mean\": %.6f, \"input_std\": %.6f}\n",
        d.properties.name, d.properties.multiProcessorCount, d.properties.l2CacheSize, driver, runtime, cublas,
        cublasLtGetVersion(), d.eviction_us, sum / sample.size(), std::sqrt(squares / sample.size()));
    std::fflush(stdout);
}

// ---------------------------------------------------------------- one product

using Call = std::function<void(int)>;  // queues one product; the number says which of the rotating operands it takes

struct Algorithm {
    cublasLtMatmulAlgo_t algo;
    int rank;  // in the heuristic's order

    template <typename T>
    long long read(cublasLtMatmulAlgoConfigAttributes_t attribute) const {
        T value{};
        size_t written = 0;
        const cublasStatus_t status = cublasLtMatmulAlgoConfigGetAttribute(&algo, attribute, &value, sizeof value, &written);
        return status == CUBLAS_STATUS_SUCCESS ? static_cast<long long>(value) : -1;
    }
    long long reduction() const { return read<uint32_t>(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME); }
    bool rounds_partial_sums() const {
        return reduction() == CUBLASLT_REDUCTION_SCHEME_INPLACE || reduction() == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    }
    std::string describe() const {
        return format(
            "{\"rank\": %d, \"id\": %lld, \"tile\": %lld, \"stages\": %lld, \"split_k\": %lld, \"reduction\": %lld, "
            "\"swizzle\": %lld, \"custom\": %lld, \"cluster\": %lld}",
            rank, read<int32_t>(CUBLASLT_ALGO_CONFIG_ID), read<uint32_t>(CUBLASLT_ALGO_CONFIG_TILE_ID),
            read<uint32_t>(CUBLASLT_ALGO_CONFIG_STAGES_ID), read<int32_t>(CUBLASLT_ALGO_CONFIG_SPLITK_NUM), reduction(),
            read<uint32_t>(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING), read<uint32_t>(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
            read<uint16_t>(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID));
    }
};

class Product {
public:
    const int m, n, k;

    Product(Device& device, const Options& options, int m, int n, int k)
        : m(m), n(n), k(k), device_(device), options_(options), first_op_(options.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N),
          first_ld_(options.b_transposed ? k : n) {
        CHECK(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
        CHECK(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &first_op_, sizeof first_op_));
        const int rows = options.b_transposed ? k : n, columns = options.b_transposed ? n : k;
        CHECK(cublasLtMatrixLayoutCreate(&first_, CUDA_R_16F, rows, columns, first_ld_));
        CHECK(cublasLtMatrixLayoutCreate(&second_, CUDA_R_16F, k, m, k));
        CHECK(cublasLtMatrixLayoutCreate(&result_, CUDA_R_16F, n, m, n));
    }
    Product(const Product&) = delete;
    ~Product() {
        for (cublasLtMatrixLayout_t layout : {first_, second_, result_}) cublasLtMatrixLayoutDestroy(layout);
        cublasLtMatmulDescDestroy(operation_);
    }

    size_t a_elements() const { return size_t(m) * k; }
    size_t b_elements() const { return size_t(k) * n; }
    size_t c_elements() const { return size_t(m) * n; }
    __half* a(int turn) const { return rotate(device_.a, a_elements(), turn); }
    __half* b(int turn) const { return rotate(device_.b, b_elements(), turn); }
    __half* c(int turn) const { return rotate(device_.c, c_elements(), turn); }

    size_t rotated_bytes(int calls) const {
        size_t elements = 0;
        for (size_t each : {a_elements(), b_elements(), c_elements()}) elements += each * std::min<size_t>(calls, POOL_ELEMENTS / each);
        return elements * sizeof(__half);
    }

    void run_cublas(int turn) const {
        CHECK(cublasGemmEx(
            device_.cublas, first_op_, CUBLAS_OP_N, n, m, k, &one_, b(turn), CUDA_R_16F, first_ld_, a(turn), CUDA_R_16F, k, &zero_,
            c(turn), CUDA_R_16F, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    }

    cublasStatus_t run_lt(const Algorithm& algorithm, int turn) const {
        return cublasLtMatmul(
            device_.lt, operation_, &one_, b(turn), first_, a(turn), second_, &zero_, c(turn), result_, c(turn), result_,
            &algorithm.algo, device_.workspace, options_.workspace_bytes, device_.stream);
    }

    Call cublas_call() const {
        return [this](int turn) { run_cublas(turn); };
    }
    Call lt_call(const Algorithm& algorithm) const {
        return [this, algorithm](int turn) { check(run_lt(algorithm, turn), "cublasLtMatmul"); };
    }

    /// The heuristic's answers, best first as it believes.
    std::vector<Algorithm> find_algorithms() const {
        cublasLtMatmulPreference_t preference;
        CHECK(cublasLtMatmulPreferenceCreate(&preference));
        const uint64_t bytes = options_.workspace_bytes;
        CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes));
        if (options_.reduces_in_fp32) {
            const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
            CHECK(cublasLtMatmulPreferenceSetAttribute(
                preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes));
        }
        std::vector<cublasLtMatmulHeuristicResult_t> answers(options_.algorithms);
        int count = 0;
        CHECK(cublasLtMatmulAlgoGetHeuristic(
            device_.lt, operation_, first_, second_, result_, result_, preference, options_.algorithms, answers.data(), &count));
        CHECK(cublasLtMatmulPreferenceDestroy(preference));
        std::vector<Algorithm> algorithms;
        for (int i = 0; i < count; ++i)
            if (answers[i].state == CUBLAS_STATUS_SUCCESS) algorithms.push_back({answers[i].algo, i});
        return algorithms;
    }

private:
    Device& device_;
    const Options& options_;
    const cublasOperation_t first_op_;
    const int first_ld_;
    const float one_ = 1.0f, zero_ = 0.0f;
    cublasLtMatmulDesc_t operation_;
    cublasLtMatrixLayout_t first_, second_, result_;

    static __half* rotate(__half* pool, size_t elements, int turn) { return pool + elements * (turn % (POOL_ELEMENTS / elements)); }
};

// ---------------------------------------------------------------- clocks

using Samples = std::vector<std::vector<double>>;  // microseconds, of each call

std::string describe_samples(std::vector<double> us) {
    std::sort(us.begin(), us.end());
    const auto at = [&](double share) { return us[std::lround(share * (us.size() - 1))]; };
    return format("[%.3f, %.3f, %.3f, %zu]", at(0.5), at(0.1), at(0.9), us.size());
}

double median(std::vector<double> us) {
    std::nth_element(us.begin(), us.begin() + us.size() / 2, us.end());
    return us[us.size() / 2];
}

/// Times single calls after the L2 cache was evicted, in turn, so that all meet the same clocks and temperatures.
Samples time_cold(Device& device, const std::vector<Call>& calls, int repeats) {
    size_t pair = 0;
    device.lead();
    for (int r = 0; r < repeats; ++r)
        for (const Call& call : calls) {
            device.evict();
            CHECK(cudaEventRecord(device.event(2 * pair), device.stream));
            call(r);
            CHECK(cudaEventRecord(device.event(2 * pair + 1), device.stream));
            ++pair;
        }
    device.wait();
    Samples samples(calls.size());
    for (size_t i = 0; i < pair; ++i) samples[i % calls.size()].push_back(elapsed_us(device, i));
    return samples;
}

/// Times calls in a row, without graphs, to screen algorithms: microseconds a call.
std::vector<double> time_batches(Device& device, const std::vector<Call>& calls) {
    std::vector<double> us;
    for (const Call& call : calls) {
        device.lead();
        CHECK(cudaEventRecord(device.event(0), device.stream));
        for (int turn = 0; turn < BATCH; ++turn) call(turn);
        CHECK(cudaEventRecord(device.event(1), device.stream));
        device.wait();
        us.push_back(elapsed_us(device, 0) / BATCH);
    }
    return us;
}

cudaGraphExec_t capture(Device& device, const Call& call, int nodes) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeRelaxed));
    for (int turn = 0; turn < nodes; ++turn) call(turn);
    CHECK(cudaStreamEndCapture(device.stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphUpload(executable, device.stream));
    return executable;
}

/// Times replays of graphs, in turn, each of so many calls over rotating operands: microseconds a call. The first replay of
/// each is not timed; the host queues the others while these run.
Samples time_graphs(Device& device, const std::vector<Call>& calls, int nodes, int repeats) {
    std::vector<cudaGraphExec_t> graphs;
    for (const Call& call : calls) graphs.push_back(capture(device, call, nodes));
    device.lead();
    for (cudaGraphExec_t graph : graphs) CHECK(cudaGraphLaunch(graph, device.stream));
    size_t pair = 0;
    for (int r = 0; r < repeats; ++r)
        for (cudaGraphExec_t graph : graphs) {
            CHECK(cudaEventRecord(device.event(2 * pair), device.stream));
            CHECK(cudaGraphLaunch(graph, device.stream));
            CHECK(cudaEventRecord(device.event(2 * pair + 1), device.stream));
            ++pair;
        }
    device.wait();
    Samples samples(calls.size());
    for (size_t i = 0; i < pair; ++i) samples[i % calls.size()].push_back(elapsed_us(device, i) / nodes);
    for (cudaGraphExec_t graph : graphs) CHECK(cudaGraphExecDestroy(graph));
    return samples;
}

int count_repeats(double budget_us, double each_us, int least, int most) {
    return std::clamp(static_cast<int>(budget_us / each_us), least, most);
}

// ---------------------------------------------------------------- which algorithm

/// Calls each algorithm once, which also loads its kernels, and drops those that the library refuses.
std::vector<Algorithm> drop_refused(const Product& product, Device& device, std::vector<Algorithm> algorithms) {
    std::vector<Algorithm> accepted;
    for (const Algorithm& algorithm : algorithms)
        if (product.run_lt(algorithm, 0) == CUBLAS_STATUS_SUCCESS) accepted.push_back(algorithm);
    device.wait();
    return accepted;
}

/// Adds the indices of the smallest times to those that are there.
void add_best(std::vector<int>& indices, const std::vector<double>& us) {
    std::vector<int> order(us.size());
    for (size_t i = 0; i < us.size(); ++i) order[i] = static_cast<int>(i);
    std::stable_sort(order.begin(), order.end(), [&](int x, int y) { return us[x] < us[y]; });
    order.resize(std::min<size_t>(FINALISTS, order.size()));
    for (int index : order)
        if (std::find(indices.begin(), indices.end(), index) == indices.end()) indices.push_back(index);
}

struct Screened {
    std::vector<int> finalists;  // the heuristic's first answer is one of them
    double us;                   // of the fastest cold call
};

/// Calls every algorithm a few times; the best few by cold calls and by warm batches go on.
Screened screen(Device& device, const std::vector<Call>& calls) {
    const Samples once = time_cold(device, calls, 1);
    std::vector<double> cold;
    for (const auto& samples : once) cold.push_back(samples[0]);
    const double best = *std::min_element(cold.begin(), cold.end());
    std::vector<Call> again;
    std::vector<size_t> indices;
    for (size_t i = 0; i < calls.size(); ++i)
        if (cold[i] <= SCREENED_AGAIN * best) {
            again.push_back(calls[i]);
            indices.push_back(i);
        }
    const Samples more = time_cold(device, again, best < BATCHED_BELOW_US ? 4 : 1);
    for (size_t j = 0; j < again.size(); ++j)
        cold[indices[j]] = std::min(cold[indices[j]], *std::min_element(more[j].begin(), more[j].end()));
    Screened screened{{0}, *std::min_element(cold.begin(), cold.end())};
    add_best(screened.finalists, cold);
    if (screened.us < BATCHED_BELOW_US) add_best(screened.finalists, time_batches(device, calls));
    return screened;
}

int find_fastest(const Samples& samples) {
    std::vector<double> medians;
    for (const auto& us : samples) medians.push_back(median(us));
    return static_cast<int>(std::min_element(medians.begin(), medians.end()) - medians.begin());
}

// ---------------------------------------------------------------- correctness

void poison(Device& device, __half* memory, size_t elements) {
    CHECK(cudaMemsetAsync(memory, 0xFF, elements * sizeof(__half), device.stream));  // NaN
}

std::string describe_number(double value) { return std::isfinite(value) ? format("%.4g", value) : "null"; }

/// The relative Frobenius distance of a call's output from cuBLAS's on the same operands.
std::string measure_difference(Device& device, const Product& product, const Call& call) {
    const size_t count = product.c_elements();
    double sums[2];
    poison(device, product.c(0), count);
    call(0);
    CHECK(cudaMemsetAsync(device.sums, 0, sizeof sums, device.stream));
    add_squares<<<device.blocks, BLOCK, 0, device.stream>>>(product.c(0), device.reference, count, device.sums);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(sums, device.sums, sizeof sums, cudaMemcpyDeviceToHost, device.stream));
    device.wait();
    return describe_number(std::sqrt(sums[0] / sums[1]));
}

void keep_reference(Device& device, const Product& product) {
    const size_t bytes = product.c_elements() * sizeof(__half);
    poison(device, product.c(0), product.c_elements());
    product.run_cublas(0);
    CHECK(cudaMemcpyAsync(device.reference, product.c(0), bytes, cudaMemcpyDeviceToDevice, device.stream));
}

std::vector<double> download(Device& device, const __half* memory, size_t count) {
    std::vector<__half> halves(count);
    device.wait();
    CHECK(cudaMemcpy(halves.data(), memory, count * sizeof(__half), cudaMemcpyDeviceToHost));
    std::vector<double> values;
    for (const __half half : halves) values.push_back(__half2float(half));
    return values;
}

std::vector<double> multiply_on_host(const Product& p, const std::vector<double>& a, const std::vector<double>& b, bool b_transposed) {
    std::vector<double> c(p.c_elements(), 0.0);
    for (int i = 0; i < p.m; ++i)
        for (int l = 0; l < p.k; ++l)
            for (int j = 0; j < p.n; ++j)
                c[size_t(i) * p.n + j] += a[size_t(i) * p.k + l] * b[b_transposed ? size_t(j) * p.k + l : size_t(l) * p.n + j];
    return c;
}

/// The relative Frobenius error of a call's fp16 output against the float64 product of the same fp16 operands.
std::string measure_error(Device& device, const Product& product, const Call& call, const std::vector<double>& exact) {
    poison(device, product.c(0), product.c_elements());
    call(0);
    const std::vector<double> c = download(device, product.c(0), product.c_elements());
    double apart = 0.0, size = 0.0;
    for (size_t i = 0; i < exact.size(); ++i) {
        apart += (c[i] - exact[i]) * (c[i] - exact[i]);
        size += exact[i] * exact[i];
    }
    return describe_number(std::sqrt(apart / size));
}

// ---------------------------------------------------------------- rows

std::string check_product(Device& device, const Options& options, const Product& product) {
    const std::vector<double> a = download(device, product.a(0), product.a_elements());
    const std::vector<double> b = download(device, product.b(0), product.b_elements());
    const std::vector<double> exact = multiply_on_host(product, a, b, options.b_transposed);
    const auto describe = [](const std::string& call, bool rounds, const std::string& error) {
        return format("{\"call\": \"%s\", \"may_round_partial_sums\": %s, \"error\": %s}", call.c_str(), rounds ? "true" : "false",
                      error.c_str());
    };
    std::string errors = describe("cublas", !options.reduces_in_fp32, measure_error(device, product, product.cublas_call(), exact));
    for (const Algorithm& algorithm : drop_refused(product, device, product.find_algorithms()))
        errors += ", " + describe(format("cublaslt %d", algorithm.rank), algorithm.rounds_partial_sums(),
                                  measure_error(device, product, product.lt_call(algorithm), exact));
    return "\"errors\": [" + errors + "]";
}

std::string measure_product(Device& device, const Options& options, const Product& product) {
    const std::vector<Algorithm> answers = product.find_algorithms(), algorithms = drop_refused(product, device, answers);
    if (algorithms.empty()) return "\"reason\": \"cuBLASLt has no algorithm\"";
    product.run_cublas(0);
    std::vector<Call> calls;
    for (const Algorithm& algorithm : algorithms) calls.push_back(product.lt_call(algorithm));
    const Screened screened = screen(device, calls);
    const int nodes = std::clamp(static_cast<int>(std::ceil(GRAPH_US / screened.us)), MIN_NODES, MAX_NODES);
    const double cold_us = screened.us + device.eviction_us, graph_us = screened.us * nodes;

    std::vector<Call> finalists;
    for (int index : screened.finalists) finalists.push_back(calls[index]);
    const double rough_us = options.measure_us / 4;
    const int by_cold = screened.finalists[find_fastest(
        time_cold(device, finalists, count_repeats(rough_us, cold_us, MIN_ROUGH, MAX_ROUGH)))];
    const int by_graph = screened.finalists[find_fastest(
        time_graphs(device, finalists, nodes, count_repeats(rough_us, graph_us, MIN_ROUGH, MAX_ROUGH)))];

    // All are measured anew, so that the winner has no advantage of having been chosen for a lucky time.
    const Call nothing = [&device](int) {
        do_nothing<<<1, 32, 0, device.stream>>>();
        CHECK(cudaGetLastError());
    };
    std::vector<Call> contestants = {nothing, product.cublas_call(), calls[0], calls[by_cold]};
    const Samples cold = time_cold(device, contestants, count_repeats(options.measure_us, cold_us, MIN_REPEATS, MAX_REPEATS));
    contestants.back() = calls[by_graph];
    const Samples graph = time_graphs(device, contestants, nodes, count_repeats(options.measure_us, graph_us, MIN_REPEATS, MAX_REPEATS));

    std::string row = format("\"answers\": %zu, \"refused\": %zu, \"nodes\": %d, \"rotated_bytes\": %zu", answers.size(),
                             answers.size() - algorithms.size(), nodes, product.rotated_bytes(nodes));
    const char* names[] = {"empty", "cublas", "heuristic", "autotuned"};
    for (size_t i = 0; i < cold.size(); ++i)
        row += format(", \"%s\": {\"cold\": %s, \"graph\": %s}", names[i], describe_samples(cold[i]).c_str(),
                      describe_samples(graph[i]).c_str());
    keep_reference(device, product);
    for (const auto& [name, index] : {std::pair{"heuristic", 0}, {"cold", by_cold}, {"graph", by_graph}})
        row += format(", \"%s_algorithm\": %s, \"%s_difference\": %s", name, algorithms[index].describe().c_str(), name,
                      measure_difference(device, product, calls[index]).c_str());
    return row;
}

Options read_options(int argc, char** argv) {
    if (argc != 7) fail("usage: headroom measure|check nn|tn WORKSPACE_MIB ALGORITHMS MEASURE_MS any|fp32");
    return {std::strcmp(argv[1], "check") == 0, std::strcmp(argv[2], "tn") == 0, std::strcmp(argv[6], "fp32") == 0,
            size_t(std::atoi(argv[3])) << 20,   std::atoi(argv[4]),              std::atof(argv[5]) * 1e3};
}

}  // namespace

int main(int argc, char** argv) {
    const Options options = read_options(argc, argv);
    Device device = open_device(options);
    describe_device(device);
    int m, n, k;
    while (std::scanf("%d %d %d", &m, &n, &k) == 3) {
        if (std::min({m, n, k}) < 1 || std::max({m, n, k}) > static_cast<int>(MAX_SIDE)) fail("a side is not in 1 to 16384");
        const auto begin = std::chrono::steady_clock::now();
        const Product product(device, options, m, n, k);
        const std::string row = options.checks ? check_product(device, options, product) : measure_product(device, options, product);
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
        std::printf("{\"m\": %d, \"n\": %d, \"k\": %d, %s, \"seconds\": %.4f}\n", m, n, k, row.c_str(), seconds.count());
        std::fflush(stdout);
    }
    return 0;
}
