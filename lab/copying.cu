// How fast does a GPU pass numbers through, read once and written once? A kernel of one operation per element (KernelBench level 1/19 to 1/32) in
// 128 shapes: a float4 or several a thread, blocks of all sizes, one after the other or as many as there are multiprocessors, all that may be
// asked of the caches, bulk copies through shared memory, and reading and writing in turns.
//
//   nvcc -O3 -std=c++17 -arch=sm_90a lab/copying.cu -o copying && ./copying [MEGABYTES …]
//
// Printed for each shape, the fastest first: microseconds of the fastest and the median of its calls, and the bytes a second of the latter. Shapes
// take turns, so that what else happens to the machine happens to all of them.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>
#include <cuda_runtime.h>

enum Policy { NONE, FIRST, STREAM, WIDE, NOALLOC };  // nothing, evict_first, .cs, L2::256B, L1::no_allocate

__device__ __forceinline__ uint64_t first() {
  uint64_t p;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(p));
  return p;
}
template <Policy P>
__device__ __forceinline__ float4 load(const float4* from) {
  float4 v;
#define TO "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
  if constexpr (P == NONE) v = __ldg(from);
  if constexpr (P == STREAM) v = __ldcs(from);
  if constexpr (P == WIDE) asm volatile("ld.global.nc.L2::256B.v4.f32 {%0,%1,%2,%3},[%4];" : TO : "l"(from));
  if constexpr (P == NOALLOC) asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0,%1,%2,%3},[%4];" : TO : "l"(from));
  if constexpr (P == FIRST)
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.f32 {%0,%1,%2,%3},[%4],%5;" : TO : "l"(from), "l"(first()));
  return v;
}
template <Policy P>
__device__ __forceinline__ void store(float4* to, float4 v) {
  if constexpr (P == NONE) *to = v;
  if constexpr (P == STREAM) __stcs(to, v);
  if constexpr (P == NOALLOC) __stcg(to, v);
  if constexpr (P == WIDE) __stwt(to, v);
  if constexpr (P == FIRST)
    asm volatile("st.global.L2::cache_hint.v4.f32 [%0],{%1,%2,%3,%4},%5;" ::"l"(to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "l"(first()) : "memory");
}
__device__ __forceinline__ float4 made(float4 v) { return make_float4(v.x * 0.5f, v.y * 0.5f, v.z * 0.5f, v.w * 0.5f); }

template <Policy R, Policy W, int UNROLL, int NEAR>  // NEAR: packs of a thread that are neighbours
__global__ void once(const float4* __restrict__ x, float4* __restrict__ y, int64_t packs) {
  const int64_t base = (int64_t)blockIdx.x * blockDim.x * UNROLL;
  float4 v[UNROLL];
  const auto at = [&](int u) { return base + (u / NEAR * blockDim.x + threadIdx.x) * NEAR + u % NEAR; };
#pragma unroll
  for (int u = 0; u < UNROLL; u++)
    if (at(u) < packs) v[u] = load<R>(x + at(u));
#pragma unroll
  for (int u = 0; u < UNROLL; u++)
    if (at(u) < packs) store<W>(y + at(u), made(v[u]));
}
template <Policy R, Policy W, int UNROLL>
__global__ void stride(const float4* __restrict__ x, float4* __restrict__ y, int64_t packs) {
  for (int64_t base = (int64_t)blockIdx.x * blockDim.x * UNROLL; base < packs; base += (int64_t)gridDim.x * blockDim.x * UNROLL) {
    float4 v[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
      if (base + u * blockDim.x + threadIdx.x < packs) v[u] = load<R>(x + base + u * blockDim.x + threadIdx.x);
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
      if (base + u * blockDim.x + threadIdx.x < packs) store<W>(y + base + u * blockDim.x + threadIdx.x, made(v[u]));
  }
}

// Bulk copies: a ring of STAGES pieces a block, read by the copy engine, worked on in place, written by it.
__device__ __forceinline__ uint32_t shared(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
template <int PIECE, int STAGES, bool HINT, bool BULK_OUT>
__global__ void bulk(const float4* __restrict__ x, float4* __restrict__ y, int64_t packs) {
  extern __shared__ __align__(128) float4 ring[];
  __shared__ uint64_t full[STAGES];
  constexpr int PACKS = PIECE / 16;
  const int64_t pieces = packs / PACKS;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; s++) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared(full + s)));
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
  const uint64_t p = first();
  const auto ask = [&](int64_t i, int s) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared(full + s)), "r"(PIECE) : "memory");
    if (HINT)
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(shared(ring + s * PACKS)), "l"(x + i * PACKS), "r"(PIECE), "r"(shared(full + s)), "l"(p) : "memory");
    else
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared(ring + s * PACKS)), "l"(x + i * PACKS), "r"(PIECE), "r"(shared(full + s)) : "memory");
  };
  const int64_t begin = blockIdx.x, by = gridDim.x;
  if (threadIdx.x == 0)
    for (int s = 0; s < STAGES - 1; s++)
      if (begin + s * by < pieces) ask(begin + s * by, s);
  int t = 0;
  for (int64_t i = begin; i < pieces; i += by, t++) {
    const int s = t % STAGES;
    if (threadIdx.x == 0) {  // the stage written a step ago is read into next
      const int64_t next = i + (STAGES - 1) * by;
      if (BULK_OUT) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      if (next < pieces) ask(next, (t + STAGES - 1) % STAGES);
    }
    asm volatile("{ .reg .pred P; L: mbarrier.try_wait.parity.shared.b64 P, [%0], %1; @!P bra L; }" ::"r"(shared(full + s)), "r"(t / STAGES & 1) : "memory");
    for (int k = threadIdx.x; k < PACKS; k += blockDim.x) {
      const float4 v = made(ring[s * PACKS + k]);
      if (BULK_OUT) ring[s * PACKS + k] = v;
      else store<FIRST>(y + i * PACKS + k, v);
    }
    if (BULK_OUT) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (BULK_OUT && threadIdx.x == 0) {
      if (HINT)
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(y + i * PACKS), "r"(shared(ring + s * PACKS)), "r"(PIECE), "l"(p) : "memory");
      else
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(y + i * PACKS), "r"(shared(ring + s * PACKS)), "r"(PIECE) : "memory");
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
  }
  if (BULK_OUT && threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
// Everybody reads BATCH pieces, then everybody writes them: fewer turns between reading and writing.
template <Policy R, Policy W, int UNROLL>
__global__ void __launch_bounds__(512) batches(const float4* __restrict__ x, float4* __restrict__ y, int64_t packs) {
  extern __shared__ __align__(128) float4 ring[];
  const int64_t whole = (int64_t)gridDim.x * blockDim.x * UNROLL;
  for (int64_t base = 0; base < packs; base += whole) {
    const auto at = [&](int u) { return base + ((int64_t)u * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x; };
#pragma unroll 8
    for (int u = 0; u < UNROLL; u++)
      if (at(u) < packs)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared(ring + u * blockDim.x + threadIdx.x)), "l"(x + at(u)) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
#pragma unroll 8
    for (int u = 0; u < UNROLL; u++)
      if (at(u) < packs) store<W>(y + at(u), made(ring[u * blockDim.x + threadIdx.x]));
  }
}

struct Shape {
  std::string name;
  std::function<void(const float4*, float4*, int64_t)> call;
  std::vector<float> us;
};
std::vector<Shape> shapes;
const char* names[] = {"-", "ef", "cs", "256B/wt", "na/cg"};

template <Policy R, Policy W, int UNROLL, int NEAR = 1>
void add_once(std::vector<int> blocks) {
  for (int b : blocks)
    shapes.push_back({std::string("once ") + names[R] + " " + names[W] + " U" + std::to_string(UNROLL) + " N" + std::to_string(NEAR) + " B" + std::to_string(b), [=](auto x, auto y, int64_t n) { once<R, W, UNROLL, NEAR><<<(n + b * UNROLL - 1) / (b * UNROLL), b>>>(x, y, n); }, {}});
}
template <Policy R, Policy W, int UNROLL>
void add_stride(int b, std::vector<int> per) {
  for (int k : per)
    shapes.push_back({std::string("stride ") + names[R] + " " + names[W] + " U" + std::to_string(UNROLL) + " B" + std::to_string(b) + "x" + std::to_string(k), [=](auto x, auto y, int64_t n) { stride<R, W, UNROLL><<<132 * k, b>>>(x, y, n); }, {}});
}
template <int PIECE, int STAGES, bool HINT, bool OUT>
void add_bulk(int b, int per) {
  constexpr int bytes = PIECE * STAGES;
  cudaFuncSetAttribute(bulk<PIECE, STAGES, HINT, OUT>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  shapes.push_back({std::string("bulk ") + (HINT ? "ef" : "-") + (OUT ? " out" : " st") + " piece " + std::to_string(PIECE) + " stages " + std::to_string(STAGES) + " B" + std::to_string(b) + "x" + std::to_string(per), [=](auto x, auto y, int64_t n) { bulk<PIECE, STAGES, HINT, OUT><<<132 * per, b, bytes>>>(x, y, n); }, {}});
}
template <Policy W, int UNROLL>
void add_batches(int b, int per) {
  const int bytes = UNROLL * b * 16;
  cudaFuncSetAttribute(batches<NONE, W, UNROLL>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  shapes.push_back({std::string("batches ") + names[W] + " U" + std::to_string(UNROLL) + " B" + std::to_string(b) + "x" + std::to_string(per), [=](auto x, auto y, int64_t n) { batches<NONE, W, UNROLL><<<132 * per, b, bytes>>>(x, y, n); }, {}});
}
__global__ void fill(float4* x, int64_t n) {
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (int64_t)blockDim.x) {
    uint32_t r = (uint32_t)i * 2654435761u;
    auto next = [&] { r = r * 1664525u + 1013904223u; return (float)(int)r * 4.6e-10f; };
    x[i] = make_float4(next(), next(), next(), next());
  }
}
__global__ void check(const float4* x, const float4* y, int64_t n, unsigned long long* wrong) {
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (int64_t)blockDim.x)
    if (x[i].x * 0.5f != y[i].x || x[i].w * 0.5f != y[i].w) atomicAdd(wrong, 1ull);
}

int main(int count, char** given) {
  add_once<NONE, NONE, 1>({128, 256, 512, 1024});
  add_once<NONE, STREAM, 1>({128, 256, 512, 1024});
  add_once<NONE, NONE, 2>({128, 256, 512});
  add_once<NONE, STREAM, 2>({128, 256, 512});
  add_once<NONE, NONE, 4>({128, 256, 512});
  add_once<NONE, STREAM, 4>({128, 256, 512});
  add_once<NONE, NONE, 8>({128, 256});
  add_once<NONE, NONE, 2, 2>({128, 256, 512});
  add_once<NONE, STREAM, 2, 2>({128, 256});
  add_once<FIRST, FIRST, 1>({128, 256, 512, 1024});
  add_once<FIRST, FIRST, 2>({128, 256, 512});
  add_once<FIRST, FIRST, 4>({128, 256, 512});
  add_once<FIRST, FIRST, 8>({128, 256});
  add_once<FIRST, NONE, 1>({128, 256, 512});
  add_once<FIRST, NONE, 2>({128, 256, 512});
  add_once<FIRST, NONE, 4>({128, 256});
  add_once<NONE, FIRST, 1>({128, 256, 512});
  add_once<NONE, FIRST, 2>({128, 256});
  add_once<FIRST, STREAM, 1>({128, 256, 512});
  add_once<FIRST, STREAM, 2>({128, 256});
  add_once<FIRST, STREAM, 4>({128, 256});
  add_once<WIDE, NONE, 1>({128, 256, 512});
  add_once<WIDE, STREAM, 1>({128, 256, 512});
  add_once<WIDE, FIRST, 1>({128, 256, 512});
  add_once<WIDE, NONE, 2>({128, 256});
  add_once<WIDE, WIDE, 1>({256});
  add_once<NOALLOC, NONE, 1>({128, 256, 512});
  add_once<NOALLOC, NONE, 2>({128, 256});
  add_once<NOALLOC, STREAM, 1>({128, 256, 512});
  add_once<NOALLOC, NOALLOC, 1>({256});
  add_once<STREAM, STREAM, 1>({128, 256, 512});
  add_once<STREAM, STREAM, 4>({256});
  add_stride<NONE, NONE, 1>(1024, {1, 2});
  add_stride<NONE, NONE, 2>(512, {1, 2, 4});
  add_stride<NONE, NONE, 4>(512, {1, 2, 3, 4});
  add_stride<FIRST, FIRST, 1>(1024, {1, 2});
  add_stride<FIRST, FIRST, 2>(512, {1, 2, 4});
  add_stride<FIRST, FIRST, 4>(512, {1, 2, 3, 4});
  add_stride<FIRST, FIRST, 8>(512, {1, 2});
  add_stride<FIRST, STREAM, 4>(512, {1, 2});
  add_bulk<4096, 8, true, true>(128, 4);
  add_bulk<8192, 4, true, true>(128, 4);
  add_bulk<8192, 4, false, true>(128, 4);
  add_bulk<8192, 6, true, true>(256, 4);
  add_bulk<8192, 12, true, true>(256, 2);
  add_bulk<16384, 4, true, true>(256, 3);
  add_bulk<16384, 6, true, true>(256, 2);
  add_bulk<16384, 12, true, true>(512, 1);
  add_bulk<32768, 6, true, true>(512, 1);
  add_bulk<32768, 6, false, true>(512, 1);
  add_bulk<32768, 3, true, true>(512, 2);
  add_bulk<8192, 4, true, false>(128, 4);
  add_bulk<8192, 6, true, false>(256, 4);
  add_bulk<16384, 6, true, false>(256, 2);
  add_bulk<16384, 12, true, false>(512, 1);
  add_bulk<32768, 6, true, false>(512, 1);
  add_bulk<8192, 6, false, false>(256, 4);
  add_batches<STREAM, 8>(512, 2);
  add_batches<STREAM, 12>(512, 2);
  add_batches<STREAM, 24>(512, 1);
  add_batches<FIRST, 12>(512, 2);
  add_batches<FIRST, 24>(512, 1);
  std::vector<int64_t> sizes;
  for (int i = 1; i < count; i++) sizes.push_back(atoll(given[i]));
  if (sizes.empty()) sizes = {268, 805, 1611};
  for (int64_t mb : sizes) {
    const int64_t packs = mb * 1000000 / 16 / 8192 * 8192;
    float4 *x, *y;
    unsigned long long *wrong, host = 0;
    cudaMalloc(&x, packs * 16); cudaMalloc(&y, packs * 16); cudaMalloc(&wrong, 8);
    fill<<<1056, 512>>>(x, packs);
    cudaEvent_t begin, end;
    cudaEventCreate(&begin); cudaEventCreate(&end);
    for (auto& s : shapes) {
      s.us.clear();
      cudaMemset(y, 255, packs * 16); cudaMemset(wrong, 0, 8);
      s.call(x, y, packs);
      check<<<1056, 512>>>(x, y, packs, wrong);
      cudaMemcpy(&host, wrong, 8, cudaMemcpyDeviceToHost);
      if (host || cudaGetLastError()) printf("%s: %llu wrong, %s\n", s.name.c_str(), host, cudaGetErrorString(cudaGetLastError()));
    }
    for (int round = 0; round < 9; round++)
      for (auto& s : shapes)
        for (int again = 0; again < 3; again++) {
          float ms;
          cudaEventRecord(begin); s.call(x, y, packs); cudaEventRecord(end);
          cudaEventSynchronize(end); cudaEventElapsedTime(&ms, begin, end);
          if (again) s.us.push_back(ms * 1e3f);
        }
    std::vector<Shape*> order;
    for (auto& s : shapes) std::sort(s.us.begin(), s.us.end()), order.push_back(&s);
    std::sort(order.begin(), order.end(), [](Shape* a, Shape* b) { return a->us[a->us.size() / 2] < b->us[b->us.size() / 2]; });
    printf("%lld MB read, as many written:\n", (long long)mb);
    for (Shape* s : order) printf("  %-44s %8.1f %8.1f us %7.1f GB/s\n", s->name.c_str(), s->us[0], s->us[s->us.size() / 2], 2e-3 * packs * 16 / s->us[s->us.size() / 2]);
    cudaFree(x); cudaFree(y); cudaFree(wrong);
  }
}
