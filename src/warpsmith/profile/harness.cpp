/* Calls units' libraries, one after the other, once or a few times on buffers that end where memory ends, for sanitizers
 * and profilers.
 *
 * In (argv), for each unit: library, values file, calls, number of inputs, then "offset extent" of each in the file, number
 * of outputs, then the extent of each. Out: exit code 0, lines "buffer <name> <address> <bytes>" on standard error.
 * On a CPU every buffer lies between pages that cannot be touched, at their end for even calls and at their start
 * for odd ones; the bytes that alignment leaves over are poisoned when it is built with AddressSanitizer. On CUDA
 * (WARPSMITH_CUDA) each buffer is an allocation of its own, so that memcheck sees to the byte where it ends.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>
#ifdef WARPSMITH_CUDA
#include <cuda_runtime_api.h>
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

static const uint64_t PAGE = 4096, ALIGN = 64;
static const unsigned char FILL = 0xFF; /* a NaN in every float format */

struct Buffer {
  std::string name;
  uint64_t extent;
  const char* values; /* null: an output or the workspace */
  void* at;
  void* whole; /* the pages it lies on */
};

static void fail(const char* what) {
  fprintf(stderr, "harness: %s\n", what);
  exit(2);
}

#ifdef WARPSMITH_CUDA
static void check(cudaError_t error) {
  if (error != cudaSuccess) fail(cudaGetErrorString(error));
}

static void place(Buffer& buffer, bool) {
  check(cudaMalloc(&buffer.at, buffer.extent ? buffer.extent : 1));
  if (buffer.values) check(cudaMemcpy(buffer.at, buffer.values, buffer.extent, cudaMemcpyHostToDevice));
}

static void release(Buffer& buffer) { check(cudaFree(buffer.at)); }

static void finish(int code) {
  if (code != 0) fail(cudaGetErrorString((cudaError_t)code));
  check(cudaDeviceSynchronize());
}
typedef int (*run_function)(const void* const*, void* const*, void*, void*, void*);
static int call(run_function run, const void* const* in, void* const* out, void* workspace) {
  static void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD); /* the runtime has opened it */
  return run(in, out, workspace, nullptr, driver ? dlsym(driver, "cuTensorMapEncodeTiled") : nullptr);
}
#else
static uint64_t pages(uint64_t size) { return (size + PAGE - 1) / PAGE * PAGE; }

static void place(Buffer& buffer, bool at_start) {
  uint64_t room = pages(buffer.extent ? buffer.extent : 1);
  char* whole = (char*)mmap(nullptr, room + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (whole == MAP_FAILED) fail("no memory for a buffer");
  char *first = whole + PAGE, *end = first + room;
  if (mprotect(first, room, PROT_READ | PROT_WRITE) != 0) fail("cannot open a buffer");
  char* at = at_start ? first : end - (buffer.extent + ALIGN - 1) / ALIGN * ALIGN;
  memset(first, FILL, room);
  if (buffer.values) {
    memcpy(at, buffer.values, buffer.extent);
    mprotect(first, room, PROT_READ);
  }
  ASAN_POISON_MEMORY_REGION(whole, at - whole); /* the closed pages too: then the report says how many bytes */
  ASAN_POISON_MEMORY_REGION(at + buffer.extent, end + PAGE - at - buffer.extent);
  buffer.at = at;
  buffer.whole = first;
}

/* Only the memory: addresses that were poisoned are never used again. */
static void release(Buffer& buffer) { madvise(buffer.whole, pages(buffer.extent ? buffer.extent : 1), MADV_DONTNEED); }
static void finish(int) {}
typedef void (*run_function)(const void* const*, void* const*, void*, void*);
static int call(run_function run, const void* const* in, void* const* out, void* workspace) {
  run(in, out, workspace, nullptr);
  return 0;
}
#endif

static const char* mapped(const char* path) {
  int fd = open(path, O_RDONLY);
  off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
  void* at = size > 0 ? mmap(nullptr, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
  if (at == MAP_FAILED) fail("cannot read the values file");
  return (const char*)at;
}

static void run_once(run_function run, std::vector<Buffer>& buffers, uint64_t inputs, bool at_start) {
  std::vector<const void*> in;
  std::vector<void*> out;
  for (uint64_t i = 0; i < buffers.size(); i++) {
    Buffer& buffer = buffers[i];
    place(buffer, at_start);
    fprintf(stderr, "buffer %s %p %llu\n", buffer.name.c_str(), buffer.at, (unsigned long long)buffer.extent);
    if (i < inputs) in.push_back(buffer.at);
    else if (i + 1 < buffers.size()) out.push_back(buffer.at);
  }
  fflush(stderr);
  finish(call(run, in.data(), out.data(), buffers.back().at));
  for (Buffer& buffer : buffers) release(buffer);
}

/* The next of the arguments. */
struct Arguments {
  char** at;
  char** end;
  const char* text() {
    if (at >= end) fail("too few arguments");
    return *at++;
  }
  uint64_t number() { return strtoull(text(), nullptr, 10); }
};

static void run_unit(Arguments& given) {
  void* library = dlopen(given.text(), RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(dlerror());
  run_function run = (run_function)dlsym(library, "warpsmith_run");
  auto workspace = (uint64_t (*)())dlsym(library, "warpsmith_workspace_bytes");
  if (!run || !workspace) fail("the library lacks the entry points");
  const char* values = mapped(given.text());
  std::vector<Buffer> buffers;
  uint64_t calls = given.number(), inputs = given.number();
  for (uint64_t i = 0; i < inputs; i++) {
    uint64_t offset = given.number(), extent = given.number();
    buffers.push_back({"in" + std::to_string(i), extent, values + offset, nullptr, nullptr});
  }
  uint64_t outputs = given.number();
  for (uint64_t i = 0; i < outputs; i++) buffers.push_back({"out" + std::to_string(i), given.number(), nullptr, nullptr, nullptr});
  buffers.push_back({"workspace", workspace(), nullptr, nullptr, nullptr});
  for (uint64_t i = 0; i < calls; i++) run_once(run, buffers, inputs, i % 2 == 1);
}

int main(int argc, char** argv) {
  Arguments given = {argv + 1, argv + argc};
  do run_unit(given);
  while (given.at < given.end);
  return 0;
}
