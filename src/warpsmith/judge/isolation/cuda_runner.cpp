/* The candidate runner on CUDA: an untrusted, one-shot process without torch that loads a unit's library and calls
 * it on the GPU. Compiled as CUDA (`nvcc -x cu`), linked to the shared runtime, in which the unit finds its symbols.
 *
 * In and out: as `runner.c`; one process may be given a unit's library at several shapes, or several units, each with an arena of its
 * own, and is told which to go on with: making a context takes longer than all of its work. The arena, shared with the
 * supervisor, stays the truth: before a call its whole image is copied to the device, bands, poison and all, and back
 * after it, buffers at the same offsets. A CUDA error is answered with its code, its text at the start of the arena, and the process ends, and its context with it.
 *
 * Steps: die with the parent, Landlock (this thread and those of the driver), the context, limits, Landlock again
 * (nothing is read any more but the library and the devices), seccomp, dlopen, serve. Which of Landlock and seccomp are
 * applied is the supervisor's to say: called with a level alone, it confines itself, tries the GPU and exits 0 if that
 * went well. Address space is not limited: a context reserves terabytes of it.
 */
#include "cuda_confine.h"
#include "runner_common.h"

#include <cuda_runtime.h>
#include <stdio.h>

#include <vector>

typedef int (*run_function)(const void* const*, void* const*, void*, void*, void*);

enum { NO_DEVICE = 60, NOT_CONFINED = 62, NO_KERNELS = 63 }; /* exits; named in runner.py */
enum { WITH_LANDLOCK = 1, WITH_SECCOMP = 2 };                /* bits of the level */
enum { MOST_IMAGES = 3, TEXT_BYTES = 160, OPEN_FILES = 1024 };
static const uint64_t LATE = 300000;  /* nanoseconds by which inputs come after the call that is to read them */
static const uint64_t AHEAD = 30000;  /* nanoseconds that the GPU is kept busy while a timed call is enqueued */
static const float STRAY_MS = 0.02f;  /* work outside of the unit's stream that lasts longer counts as its own */

struct setting { /* argv, in this order */
  uint64_t request, answer, arena, inputs, outputs, memory, parent, level;
};

struct library {
  const char* path;
  int arena;
  uint64_t inputs, outputs;
  run_function run;
  bytes_function bytes;
};

struct runner {
  struct setting setting;
  std::vector<struct library> libraries;
  const struct library* now;
  char* arena;
  size_t size;
  char* stage;               /* the arena on the device as it was before the last run */
  char* images[MOST_IMAGES]; /* copies of it that the unit works on, `count` of them; runs use the first */
  int count;
  cudaStream_t apart, joined; /* joined: in order with the legacy stream, on which the clock runs; apart: with none */
  uint4* sweep;
  size_t sweep_bytes;
  int processors, shared; /* streaming multiprocessors, bytes of shared memory that a block may have */
  uint64_t runs;          /* calls that are compared so far */
  void* encoder;          /* the driver's function that encodes tensor maps; a unit without any does not look at it */
  const void* in[MAX_BUFFERS];
  void* out[MAX_BUFFERS];
};

__device__ uint64_t device_ns() {
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__global__ void hold(uint64_t ns) {
  const uint64_t start = device_ns();
  while (device_ns() - start < ns) {
  }
}

/* Reads and writes every line, so that the L2 cache holds nothing else. */
__global__ void sweep(uint4* buffer, size_t count) {
  const size_t step = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) buffer[i].x += 1;
}

/* What an earlier launch left in shared memory, a later one could read. A block on each processor takes all of it. */
__global__ void scrub(int words) {
  extern __shared__ unsigned left[];
  for (int i = threadIdx.x; i < words; i += blockDim.x) left[i] = 0x7FFDFFFCu;
  __syncthreads();
  const uint64_t start = device_ns();
  while (device_ns() - start < 2000) { /* until every processor has its block */
  }
}

static cudaError_t forget(const struct runner* r, cudaStream_t stream) {
  scrub<<<r->processors, 256, r->shared, stream>>>(r->shared / 4);
  return cudaGetLastError();
}

static cudaError_t evict(const struct runner* r) {
  sweep<<<1024, 512>>>(r->sweep, r->sweep_bytes / sizeof(uint4));
  return cudaGetLastError();
}

/* Answer with the error and end: after most of them the context is of no use. */
static void broken(const struct runner* r, cudaError_t code) {
  struct reply reply = {(uint64_t)code, 0, 0, 0};
  if (r->arena != NULL) snprintf(r->arena, TEXT_BYTES, "%s", cudaGetErrorString(code));
  exact((int)r->setting.answer, &reply, sizeof reply, 1);
  _exit(0);
}

static void must(const struct runner* r, cudaError_t code) {
  if (code != cudaSuccess) broken(r, code);
}

/* Another library, and no memory of the one before. Returns the workspace's bytes. */
static uint64_t pick(struct runner* r, uint64_t index) {
  if (index >= r->libraries.size()) fail(46);
  while (r->count > 0) must(r, cudaFree(r->images[--r->count]));
  must(r, cudaFree(r->stage));
  must(r, cudaFree(r->sweep));
  if (r->arena != NULL) {
    cudaHostUnregister(r->arena);
    cudaGetLastError(); /* where it never was */
    munmap(r->arena, r->size);
  }
  r->arena = r->stage = NULL;
  r->sweep = NULL;
  r->now = &r->libraries[index];
  return r->now->bytes();
}

static void map_arena(struct runner* r, size_t size) {
  void* at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->now->arena, 0);
  if (at == MAP_FAILED) fail(44);
  close(r->now->arena);
  r->arena = (char*)at;
  r->size = size;
  cudaHostRegister(at, size, cudaHostRegisterDefault); /* copies are seven times as fast; without it they work, too */
  cudaGetLastError();
  size_t room = 0, all = 0;
  must(r, cudaMemGetInfo(&room, &all));
  const int wanted = room / 8 > size ? MOST_IMAGES : 1;
  must(r, cudaMalloc((void**)&r->stage, size));
  for (r->count = 0; r->count < wanted; r->count++) must(r, cudaMalloc((void**)&r->images[r->count], size));
  must(r, cudaMalloc((void**)&r->sweep, r->sweep_bytes));
  must(r, cudaMemset(r->sweep, 0, r->sweep_bytes));
}

static cudaError_t call(struct runner* r, const struct command* command, char* image, cudaStream_t stream) {
  const uint64_t inputs = r->now->inputs;
  for (uint64_t i = 0; i < inputs; i++) r->in[i] = image + command->buffers[i];
  for (uint64_t i = 0; i < r->now->outputs; i++) r->out[i] = image + command->buffers[inputs + i];
  const int code = r->now->run(r->in, r->out, image + command->workspace, stream, r->encoder);
  const cudaError_t last = cudaGetLastError();
  return code != 0 ? (cudaError_t)code : last;
}

static uint64_t elapsed_ns(const struct runner* r, cudaEvent_t from, cudaEvent_t to) {
  float ms = 0;
  must(r, cudaEventElapsedTime(&ms, from, to));
  return (uint64_t)(ms * 1e6f);
}

/* One call on fresh buffers. The inputs arrive late and only in the order of its stream: a unit that launches on
 * another one reads and leaves NaN. Shared memory holds poison in one call and, in the next, what the one before left there: a unit
 * that reads either is wrong in one of them. Returns nanoseconds by the GPU's clock. */
static uint64_t run_once(struct runner* r, const struct command* command) {
  cudaEvent_t events[2];
  for (int i = 0; i < 2; i++) must(r, cudaEventCreate(&events[i]));
  must(r, cudaMemcpy(r->stage, r->arena, r->size, cudaMemcpyHostToDevice));
  must(r, cudaMemset(r->images[0], 0xff, r->size));
  if (r->runs++ % 2 == 0) must(r, forget(r, r->apart));
  must(r, cudaDeviceSynchronize());
  hold<<<1, 1, 0, r->apart>>>(LATE);
  must(r, cudaGetLastError());
  must(r, cudaMemcpyAsync(r->images[0], r->stage, r->size, cudaMemcpyDeviceToDevice, r->apart));
  must(r, cudaEventRecord(events[0], r->apart));
  must(r, call(r, command, r->images[0], r->apart));
  must(r, cudaEventRecord(events[1], r->apart));
  must(r, cudaDeviceSynchronize());
  must(r, cudaMemcpy(r->arena, r->images[0], r->size, cudaMemcpyDeviceToHost));
  const uint64_t spent = elapsed_ns(r, events[0], events[1]);
  for (int i = 0; i < 2; i++) cudaEventDestroy(events[i]);
  return spent;
}

/* Calls each between a pair of events on the unit's stream; a third, on the legacy stream, comes after everything that
 * the call started anywhere. Cold: the cache is swept before each call and the copies take turns. Returns the
 * nanoseconds of the whole batch, synchronised, by the host's clock. */
static uint64_t time_calls(struct runner* r, const struct command* command) {
  std::vector<cudaEvent_t> events(3 * command->count);
  std::vector<uint64_t> spent(command->count);
  for (cudaEvent_t& event : events) must(r, cudaEventCreate(&event));
  for (int i = 0; i < r->count; i++)
    must(r, cudaMemcpy(r->images[i], r->stage, r->size, cudaMemcpyDeviceToDevice));
  cudaCtxResetPersistingL2Cache();
  cudaGetLastError(); /* where there is no such carve-out */
  must(r, cudaDeviceSynchronize());
  char* image = r->images[0];
  const uint64_t start = nanoseconds();
  for (uint64_t i = 0; i < command->count; i++) {
    must(r, forget(r, NULL));
    if (command->flush) {
      image = r->images[i % r->count];
      must(r, evict(r));
    } else {
      hold<<<1, 1>>>(AHEAD);
    }
    must(r, cudaEventRecord(events[3 * i], r->joined));
    must(r, call(r, command, image, r->joined));
    must(r, cudaEventRecord(events[3 * i + 1], r->joined));
    must(r, cudaEventRecord(events[3 * i + 2], cudaStreamLegacy));
  }
  must(r, cudaDeviceSynchronize());
  const uint64_t wall = nanoseconds() - start;
  for (uint64_t i = 0; i < command->count; i++) {
    const uint64_t stray = elapsed_ns(r, events[3 * i + 1], events[3 * i + 2]);
    spent[i] = elapsed_ns(r, events[3 * i], events[3 * i + 1]) + (stray > STRAY_MS * 1e6f ? stray : 0);
  }
  for (cudaEvent_t event : events) cudaEventDestroy(event);
  must(r, cudaMemcpy(r->arena, image, r->size, cudaMemcpyDeviceToHost));
  memcpy(r->arena + command->results, spent.data(), spent.size() * sizeof spent[0]);
  return wall;
}

static void serve(struct runner* r) {
  static struct command command;
  struct reply reply = {0, 0, 0, 0};
  for (;;) {
    exact((int)r->setting.request, &command, sizeof command, 0);
    if (command.op == OP_MAP) map_arena(r, command.size);
    if (command.op == OP_RUN) reply.value = run_once(r, &command);
    if (command.op == OP_TIME) reply.value = time_calls(r, &command);
    if (command.op == OP_PICK) reply.value = pick(r, command.count);
    exact((int)r->setting.answer, &reply, sizeof reply, 1);
  }
}

/* Where it is, or NULL: the runtime has opened the driver's library. */
static void* find_encoder(void) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver == NULL ? NULL : dlsym(driver, "cuTensorMapEncodeTiled");
}

/* A device and its context, streams and the sizes of things; false where there is none. */
static bool open_device(struct runner* r) {
  int device = 0, cache = 0;
  const bool ready = cudaSetDevice(0) == cudaSuccess && cudaFree(NULL) == cudaSuccess &&
                     cudaGetDevice(&device) == cudaSuccess &&
                     cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device) == cudaSuccess &&
                     cudaDeviceGetAttribute(&r->processors, cudaDevAttrMultiProcessorCount, device) == cudaSuccess &&
                     cudaDeviceGetAttribute(&r->shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) ==
                         cudaSuccess &&
                     cudaFuncSetAttribute(scrub, cudaFuncAttributeMaxDynamicSharedMemorySize, r->shared) ==
                         cudaSuccess &&
                     cudaStreamCreateWithFlags(&r->apart, cudaStreamNonBlocking) == cudaSuccess &&
                     cudaStreamCreate(&r->joined) == cudaSuccess;
  r->encoder = find_encoder();
  r->sweep_bytes = 4 * (size_t)(cache > 0 ? cache : 8 << 20);
  return ready;
}

/* Opens the device and confines this process at the level asked for. */
static struct reply confine(struct runner* r, const std::vector<const char*>& libraries) {
  struct reply hello = {0, 0, 0, 0};
  const uint64_t level = r->setting.level, arch = ARCH;
  limit(RLIMIT_CORE, 0);
  const bool may = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  const bool early = may && (level & WITH_LANDLOCK) && landlock_early();
  if (!open_device(r)) fail(NO_DEVICE);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_NOFILE, OPEN_FILES);
  limit_memory(r->setting.memory, 0);
  if (early) hello.landlock = landlock_late(libraries);
  hello.seccomp = may && (level & WITH_SECCOMP) && arch != 0 && confine_calls();
  return hello;
}

/* What every unit needs of the GPU, first done after confinement: memory, lazily loaded kernels, copies, events. */
static bool works(struct runner* r) {
  char host[64] = {0};
  cudaEvent_t event;
  bool good = cudaMalloc((void**)&r->sweep, r->sweep_bytes) == cudaSuccess && evict(r) == cudaSuccess &&
              forget(r, r->apart) == cudaSuccess;
  hold<<<1, 1, 0, r->apart>>>(1000);
  good = good && cudaEventCreate(&event) == cudaSuccess && cudaEventRecord(event, r->joined) == cudaSuccess &&
         cudaMemset(r->sweep, 0, sizeof host) == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess &&
         cudaMemcpy(host, r->sweep, sizeof host, cudaMemcpyDeviceToHost) == cudaSuccess &&
         cudaFree(r->sweep) == cudaSuccess;
  return good && cudaGetLastError() == cudaSuccess;
}

static int probe(uint64_t level) {
  static struct runner r;
  r.setting.level = level;
  r.setting.memory = (uint64_t)1 << 30;
  const struct reply hello = confine(&r, {});
  if ((level & WITH_LANDLOCK) && !hello.landlock) fail(NOT_CONFINED);
  if ((level & WITH_SECCOMP) && !hello.seccomp) fail(NOT_CONFINED);
  if (!works(&r)) fail(NO_KERNELS);
  _exit(0);
}

static void open_library(struct library* l) {
  void* made = dlopen(l->path, RTLD_NOW | RTLD_LOCAL);
  if (made == NULL) fail(49);
  l->run = (run_function)dlsym(made, "warpsmith_run");
  l->bytes = (bytes_function)dlsym(made, "warpsmith_workspace_bytes");
  if (l->run == NULL || l->bytes == NULL) fail(50);
}

/* Arguments after the settings: the first library's path; of each other the arena, the numbers of inputs and outputs, the path. */
int main(int argc, char** argv) {
  static struct runner r;
  const size_t count = sizeof r.setting / sizeof(uint64_t);
  if (argc == 2) return probe(strtoull(argv[1], NULL, 10));
  if (argc < (int)count + 2 || (argc - (int)count - 2) % 4 != 0) fail(46);
  settings(argv, (uint64_t*)&r.setting, count);
  std::vector<const char*> paths = {argv[count + 1]};
  r.libraries.push_back({paths[0], (int)r.setting.arena, r.setting.inputs, r.setting.outputs, NULL, NULL});
  for (char** at = argv + count + 2; at < argv + argc; at += 4) {
    paths.push_back(at[3]);
    r.libraries.push_back({at[3], atoi(at[0]), strtoull(at[1], NULL, 10), strtoull(at[2], NULL, 10), NULL, NULL});
  }
  for (const struct library& l : r.libraries)
    if (l.inputs + l.outputs > MAX_BUFFERS) fail(46);
  die_with(r.setting.parent);
  struct reply hello = confine(&r, paths);
  for (struct library& l : r.libraries) open_library(&l);
  hello.value = pick(&r, 0);
  exact((int)r.setting.answer, &hello, sizeof hello, 1);
  serve(&r);
}
