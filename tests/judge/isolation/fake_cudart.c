/* A CUDA runtime without a GPU, for tests of the candidate runner's protocol and confinement: device memory is host
 * memory, kernels do nothing, events read the clock, and a helper thread runs as a driver's would. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct event { struct timespec at; };

static void* helper(void* nothing) {
  for (;;) nanosleep(&(struct timespec){0, 10000000}, NULL);
  return nothing;
}

int cudaSetDevice(int device) {
  pthread_t thread;
  return getenv("CUDA_VISIBLE_DEVICES") ? 100 : pthread_create(&thread, NULL, helper, (void*)(size_t)device);
}
int cudaGetDevice(int* device) { return *device = 0; }
int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  *value = 32768;
  return 0 * (attribute + device);
}
int cudaMemGetInfo(size_t* room, size_t* all) {
  *room = *all = (size_t)1 << 30;
  return 0;
}
int cudaMalloc(void** at, size_t size) { return posix_memalign(at, 4096, size) ? 2 : 0; }
int cudaFree(void* at) {
  free(at);
  return 0;
}
int cudaMemset(void* at, int value, size_t size) {
  memset(at, value, size);
  return 0;
}
int cudaMemcpy(void* to, const void* from, size_t size, int kind) {
  memcpy(to, from, size);
  return 0 * kind;
}
int cudaMemcpyAsync(void* to, const void* from, size_t size, int kind, void* stream) {
  return cudaMemcpy(to, from, size, stream ? kind : 0);
}
int cudaHostRegister(void* at, size_t size, unsigned flags) { return at && size ? 0 * (int)flags : 1; }
int cudaHostUnregister(void* at) { return at ? 0 : 1; }
int cudaStreamCreate(void** stream) { return *stream = malloc(1), 0; }
int cudaStreamCreateWithFlags(void** stream, unsigned flags) { return *stream = malloc(flags), 0; }
int cudaDeviceSynchronize(void) { return 0; }
int cudaGetLastError(void) { return 0; }
int cudaCtxResetPersistingL2Cache(void) { return 0; }
int cudaFuncSetAttribute(const void* kernel, int attribute, int value) { return kernel ? 0 * attribute * value : 1; }
const char* cudaGetErrorString(int code) { return code == 700 ? "an illegal memory access was encountered" : "another"; }
int cudaEventCreate(void** event) { return *event = malloc(sizeof(struct event)), 0; }
int cudaEventDestroy(void* event) {
  free(event);
  return 0;
}
int cudaEventRecord(struct event* event, void* stream) { return stream ? clock_gettime(CLOCK_MONOTONIC, &event->at) : 1; }
int cudaEventElapsedTime(float* ms, struct event* from, struct event* to) {
  *ms = (float)((double)(to->at.tv_sec - from->at.tv_sec) * 1e3 + (double)(to->at.tv_nsec - from->at.tv_nsec) * 1e-6);
  return 0;
}

void* __cudaRegisterFatBinary(void* binary) { return binary; }
void __cudaRegisterFatBinaryEnd(void* binary) { (void)binary; }
void __cudaUnregisterFatBinary(void* binary) { (void)binary; }
void __cudaRegisterFunction(void) {}
int __cudaGetKernel(void** kernel, const void* function) { return *kernel = (void*)function, 0; }
unsigned __cudaPushCallConfiguration(void) { return 1; } /* not 0: the launch is skipped */
int __cudaPopCallConfiguration(void) { return 0; }
int __cudaLaunchKernel(void) { return 0; }
