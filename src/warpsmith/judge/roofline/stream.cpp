// Peak rates of this machine, printed as JSON: memory bandwidth by working-set size and FP32 multiply-adds.
// argv: threads, then working-set sizes in bytes. Each rate is the best of several passes, since the limit is what the
// machine can do at its best. In the spirit of STREAM (McCalpin 1995), with non-temporal stores as an own case.
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
constexpr int kWidth = 64, kChains = 16;
#elif defined(__AVX__)
constexpr int kWidth = 32, kChains = 12;
#else
constexpr int kWidth = 16, kChains = 12;
#endif
typedef float vec __attribute__((vector_size(kWidth)));  // one register
static const double kSeconds = 0.05;                     // for each rate
static volatile float sink;

static double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static void read_part(const vec* p, int64_t n, int64_t passes) {
  vec s[8] = {};
  for (int64_t k = 0; k < passes; k++) {
    for (int64_t i = 0; i + 8 <= n; i += 8)
      for (int j = 0; j < 8; j++) s[j] += p[i + j];
    __asm__ volatile("" : : "r"(p) : "memory");
  }
  vec total = {};
  for (int j = 0; j < 8; j++) total += s[j];
  sink = total[0];
}

static void copy_part(const vec* from, vec* to, int64_t n, int64_t passes) {
  for (int64_t k = 0; k < passes; k++) {
    for (int64_t i = 0; i < n; i++) to[i] = from[i];
    __asm__ volatile("" : : "r"(from), "r"(to) : "memory");
  }
}

static void stream_part(const vec* from, vec* to, int64_t n, int64_t passes) {
#ifdef __x86_64__
  for (int64_t k = 0; k < passes; k++)
    for (int64_t i = 0; i < n; i++)
      for (int j = 0; j < kWidth / 16; j++) _mm_stream_ps((float*)(to + i) + 4 * j, _mm_load_ps((const float*)(from + i) + 4 * j));
  _mm_sfence();
#else
  copy_part(from, to, n, passes);
#endif
}

enum Kind { kRead, kCopy, kStream };

// Bytes moved by a pass over `bytes` of memory: read once each, or half of them read and half written.
static double bandwidth(Kind kind, char* memory, int64_t bytes, int threads) {
  double best = 0, begin = now();
  const int64_t share = bytes / threads / 1024 * 1024;
  const int64_t passes = 1 + (32 << 20) / bytes;  // small sets: many passes, so that starting the threads does not count
  while (now() - begin < kSeconds || best == 0) {
    double start = 1e300, end = 0;  // of the first thread to start, of the last to end
#pragma omp parallel num_threads(threads) reduction(min : start) reduction(max : end)
    {
      start = now();
      char* mine = memory + share * omp_get_thread_num();
      vec *from = (vec*)mine, *to = (vec*)(mine + share / 2);
      const int64_t half = share / 2 / sizeof(vec);
      if (kind == kRead) read_part(from, 2 * half, passes);
      if (kind == kCopy) copy_part(from, to, half, passes);
      if (kind == kStream) stream_part(from, to, half, passes);
      end = now();
    }
    const double rate = (double)share * threads * passes / (end - start);
    best = rate > best ? rate : best;
  }
  return best;
}

// kChains: at least latency times throughput of the widest units, and with both factors no more than there are registers.
static double multiply_adds(int threads) {
  const int64_t steps = 200000;
  double best = 0, begin = now();
  while (now() - begin < 4 * kSeconds || best == 0) {
    double start = 1e300, end = 0;
#pragma omp parallel num_threads(threads) reduction(min : start) reduction(max : end)
    {
      start = now();
      vec a[kChains], x = {}, y = {};
      for (int j = 0; j < kChains; j++) a[j] = x + (float)j;
      x += 0.999f + 1e-9f * omp_get_thread_num();
      y += 1e-3f;
      for (int64_t k = 0; k < steps; k++)
#pragma GCC unroll 16
        for (int j = 0; j < kChains; j++) a[j] = a[j] * x + y;
      vec total = {};
      for (int j = 0; j < kChains; j++) total += a[j];
      sink = total[0];
      end = now();
    }
    const double rate = 2.0 * (sizeof(vec) / 4) * kChains * steps * threads / (end - start);
    best = rate > best ? rate : best;
  }
  return best;
}

int main(int argc, char** argv) {
  const int threads = atoi(argv[1]);
  int64_t most = 0;
  for (int i = 2; i < argc; i++) most = atoll(argv[i]) > most ? atoll(argv[i]) : most;
  char* memory = (char*)aligned_alloc(4096, (most + 4095) / 4096 * 4096);
  if (threads < 1 || !memory) return 1;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < most / 4; i++) ((float*)memory)[i] = 1.0f;
  const char* names[] = {"read", "copy", "stream"};
  printf("{");
  for (int kind = kRead; kind <= kStream; kind++) {
    printf("\"%s\": {", names[kind]);
    for (int i = 2; i < argc; i++)
      printf("%s\"%s\": %.6g", i > 2 ? ", " : "", argv[i], bandwidth((Kind)kind, memory, atoll(argv[i]), threads));
    printf("}, ");
  }
  printf("\"flops\": %.6g}\n", multiply_adds(threads));
  return 0;
}
