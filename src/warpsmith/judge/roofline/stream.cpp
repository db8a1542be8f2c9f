// Peak rates of this machine, printed as JSON: memory bandwidth by working-set size and FP32 multiply-adds.
// argv: threads, then working-set sizes in bytes. Each rate is the best of several passes, since the limit is what the
// machine can do at its best. In the spirit of STREAM (McCalpin 1995), with non-temporal stores as an own case.
// Beside each rate stands how much of the time the thread that waited longest spent in run queues: by the kernel's schedstat,
// and, for kernels that keep none, by what a pass took it beyond its processor time, since no thread sleeps in a pass.
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
static const double kWake = 5e-4;                        // seconds that it takes an idle thread to begin a pass, at most
static volatile float sink;

static double now(clockid_t clock = CLOCK_MONOTONIC) {
  timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

// Seconds that this thread spent in run queues so far; 0 where the kernel does not say.
static double queued_seconds() {
  unsigned long long ran, queued = 0;
  FILE* file = fopen("/proc/thread-self/schedstat", "r");
  if (file && fscanf(file, "%llu %llu", &ran, &queued) != 2) queued = 0;
  if (file) fclose(file);
  return queued * 1e-9;
}

// The passes of one rate, from construction on.
struct Rate {
  static const int kMost = 1024;
  double best = 0, missed = 0, begin, queued[kMost];
  int threads;

  explicit Rate(int team) : threads(team) {
#pragma omp parallel num_threads(threads)
    if (omp_get_thread_num() < kMost) queued[omp_get_thread_num()] = queued_seconds();
    begin = now();
  }

  bool goes_on(double seconds) const { return now() - begin < seconds || best == 0; }

  // `late`: what a pass took the thread that waited longest, from the start of the first one on, beyond its processor time.
  void add(double work, double start, double end, double late) {
    best = work / (end - start) > best ? work / (end - start) : best;
    missed += late > kWake ? late : 0;
  }

  void print() const {
    const double wall = now() - begin;
    double longest = missed;
#pragma omp parallel num_threads(threads) reduction(max : longest)
    if (omp_get_thread_num() < kMost) {
      const double waited = queued_seconds() - queued[omp_get_thread_num()];
      longest = waited > longest ? waited : longest;
    }
    printf("[%.6g, %.3g]", best, longest < wall ? longest / wall : 1.0);
  }
};

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
static Rate bandwidth(Kind kind, char* memory, int64_t bytes, int threads) {
  Rate rate(threads);
  const int64_t share = bytes / threads / 1024 * 1024;
  const int64_t passes = 1 + (32 << 20) / bytes;  // small sets: many passes, so that starting the threads does not count
  while (rate.goes_on(kSeconds)) {
    double start = 1e300, end = 0, late = 0;  // of the first thread to start, of the last to end, of the one that waited longest
    const double asked = now();
#pragma omp parallel num_threads(threads) reduction(min : start) reduction(max : end, late)
    {
      start = now();
      const double ran = now(CLOCK_THREAD_CPUTIME_ID);
      char* mine = memory + share * omp_get_thread_num();
      vec *from = (vec*)mine, *to = (vec*)(mine + share / 2);
      const int64_t half = share / 2 / sizeof(vec);
      if (kind == kRead) read_part(from, 2 * half, passes);
      if (kind == kCopy) copy_part(from, to, half, passes);
      if (kind == kStream) stream_part(from, to, half, passes);
      end = now();
      late = end - asked - (now(CLOCK_THREAD_CPUTIME_ID) - ran);
    }
    rate.add((double)share * threads * passes, start, end, late);
  }
  return rate;
}

// kChains: at least latency times throughput of the widest units, and with both factors no more than there are registers.
static Rate multiply_adds(int threads) {
  const int64_t steps = 200000;
  Rate rate(threads);
  while (rate.goes_on(4 * kSeconds)) {
    double start = 1e300, end = 0, late = 0;
    const double asked = now();
#pragma omp parallel num_threads(threads) reduction(min : start) reduction(max : end, late)
    {
      start = now();
      const double ran = now(CLOCK_THREAD_CPUTIME_ID);
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
      late = end - asked - (now(CLOCK_THREAD_CPUTIME_ID) - ran);
    }
    rate.add(2.0 * (sizeof(vec) / 4) * kChains * steps * threads, start, end, late);
  }
  return rate;
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
    for (int i = 2; i < argc; i++) {
      printf("%s\"%s\": ", i > 2 ? ", " : "", argv[i]);
      bandwidth((Kind)kind, memory, atoll(argv[i]), threads).print();
    }
    printf("}, ");
  }
  printf("\"flops\": ");
  multiply_adds(threads).print();
  printf("}\n");
  return 0;
}
