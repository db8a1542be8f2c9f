// Does a second reading come from the L2 cache, and how far may it be behind the first? Rows as KernelBench level 1/40 has them: 16 of 4,194,304 floats.
//
// Each block has the same part of every row. It reads a step, and `lag` sixteenths of a row later it reads it again and writes it elsewhere: what a
// row norm does that does not keep its row. Printed: microseconds of the fastest and the mean of ten calls, for what the first reading, the second and
// the writing ask of the L2 cache. With an argument each is called once, for a profiler:
//
//   nvcc -O3 -arch=sm_90a lab/second_reading.cu -o second_reading && ./second_reading
//   ncu --clock-control none --metrics dram__bytes_read.sum,dram__bytes_write.sum ./second_reading 1
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

constexpr int BLOCKS = 132, THREADS = 512;
constexpr int64_t ROW = 4194304, ROWS = 16;
enum Policy { NONE, FIRST, LAST, UNCHANGED, STREAM };  // evict_first, evict_last, evict_unchanged, st.global.cs

template <Policy P>
__device__ __forceinline__ uint64_t policy() {
  uint64_t p = 0;
  if (P == FIRST) asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(p));
  if (P == LAST) asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(p));
  if (P == UNCHANGED) asm("createpolicy.fractional.L2::evict_unchanged.b64 %0, 1.0;" : "=l"(p));
  return p;
}
template <Policy P>
__device__ __forceinline__ float4 load(const float4* from, uint64_t p) {
  float4 v;
  if (P == NONE)
    asm volatile("ld.global.L1::no_allocate.v4.f32 {%0,%1,%2,%3},[%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from));
  else
    asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v4.f32 {%0,%1,%2,%3},[%4],%5;"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from), "l"(p));
  return v;
}
template <Policy P>
__device__ __forceinline__ void store(float4* to, float4 v, uint64_t p) {
  if (P == NONE) *to = v;
  else if (P == STREAM) __stcs(to, v);
  else
    asm volatile("st.global.L2::cache_hint.v4.f32 [%0],{%1,%2,%3,%4},%5;"
                 :: "l"(to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "l"(p) : "memory");
}

template <Policy READ, Policy AGAIN, Policy WRITE, int UNROLL, bool TWICE>
__global__ void __launch_bounds__(THREADS, 1) rows(const float4* x, float4* y, float* sum, int lag) {
  const uint64_t read = policy<READ>(), again = policy<AGAIN>(), write = policy<WRITE>();
  const int64_t packs = ROW / 4, part = (packs + BLOCKS - 1) / BLOCKS, base = blockIdx.x * part;
  const int steps = packs / BLOCKS / (THREADS * UNROLL) + 1, total = steps * ROWS;
  const auto place = [&](int k, int u) { return (int64_t)(k * UNROLL + u) * THREADS + threadIdx.x; };
  const auto there = [&](int64_t i) { return i < part && base + i < packs; };
  float added = 0;
  for (int t = 0; t < total + lag; t++) {
    float4 v[UNROLL] = {}, w[UNROLL] = {};
    const bool adds = t < total, writes = t >= lag;
    const float4* const first = x + t / steps * packs + base;
    const int64_t behind = (t - lag) / steps * packs + base;
    for (int u = 0; u < UNROLL; u++)
      if (adds && there(place(t % steps, u))) v[u] = load<READ>(first + place(t % steps, u), read);
    for (int u = 0; u < UNROLL; u++)
      if (TWICE && writes && there(place((t - lag) % steps, u))) w[u] = load<AGAIN>(x + behind + place((t - lag) % steps, u), again);
    for (int u = 0; u < UNROLL; u++) added += v[u].x + v[u].y + v[u].z + v[u].w;
    for (int u = 0; u < UNROLL; u++) {
      float4 made = TWICE ? w[u] : v[u];
      made.x += added * 1e-30f;
      if (writes && there(place((t - lag) % steps, u))) store<WRITE>(y + behind + place((t - lag) % steps, u), made, write);
    }
  }
  if (added == 12345.0f) *sum = added;
}

int calls = 12;
float4 *x, *y;
float* sum;

template <Policy READ, Policy AGAIN, Policy WRITE, int UNROLL, bool TWICE>
void run(const char* name, int sixteenths) {
  const int steps = ROW / 4 / BLOCKS / (THREADS * UNROLL) + 1, lag = (steps * sixteenths + 15) / 16;
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  float least = 1e9f, all = 0;
  for (int i = 0; i < calls; i++) {
    float ms;
    cudaEventRecord(begin);
    rows<READ, AGAIN, WRITE, UNROLL, TWICE><<<BLOCKS, THREADS>>>(x, y, sum, lag);
    cudaEventRecord(end);
    cudaEventSynchronize(end);
    cudaEventElapsedTime(&ms, begin, end);
    if (i >= 2 || calls == 1) least = ms < least ? ms : least, all += ms;
  }
  printf("%-32s loads %d, lag %2d/16 of a row: %7.1f us, mean %7.1f; %s\n", name, UNROLL, sixteenths, least * 1e3f,
         all * 1e3f / (calls == 1 ? 1 : calls - 2), cudaGetErrorString(cudaGetLastError()));
}

int main(int count, char**) {
  if (count > 1) calls = 1;
  const int64_t numbers = ROW * ROWS;
  float* const host = (float*)malloc(numbers * 4);
  uint32_t random = 1;
  for (int64_t i = 0; i < numbers; i++) random = random * 1664525u + 1013904223u, host[i] = (random >> 8) * (1.0f / (1 << 24)) - 0.5f;
  cudaMalloc(&x, numbers * 4);
  cudaMalloc(&y, numbers * 4);
  cudaMalloc(&sum, 4);
  cudaMemcpy(x, host, numbers * 4, cudaMemcpyHostToDevice);
  run<NONE, NONE, NONE, 4, false>("once: plain, plain", 0);
  run<FIRST, NONE, FIRST, 4, false>("once: first, first", 0);
  run<FIRST, NONE, STREAM, 4, false>("once: first, stream", 0);
  for (int lag : {4, 8, 12, 16, 20}) run<NONE, NONE, NONE, 4, true>("plain, plain, plain", lag);
  for (int lag : {4, 8, 12, 16, 20}) run<NONE, FIRST, FIRST, 4, true>("plain, first, first", lag);
  for (int lag : {4, 8, 12, 16, 20}) run<LAST, FIRST, FIRST, 4, true>("last, first, first", lag);
  for (int lag : {8, 16}) run<LAST, UNCHANGED, FIRST, 4, true>("last, unchanged, first", lag);
  for (int lag : {8, 16}) run<LAST, FIRST, STREAM, 4, true>("last, first, stream", lag);
  for (int lag : {8, 16}) run<LAST, FIRST, FIRST, 8, true>("last, first, first", lag);
}
