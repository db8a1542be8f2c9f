/* Records where a process spends its processor time: at each tick of ITIMER_PROF the instruction pointer of the thread that runs. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>

enum { CAPACITY = 1 << 16 };
static uint64_t addresses[CAPACITY];
static uint32_t count;

static void record(int signal, siginfo_t* info, void* context) {
  (void)signal;
  (void)info;
  const mcontext_t* machine = &((const ucontext_t*)context)->uc_mcontext;
#if defined(__x86_64__)
  uint64_t at = (uint64_t)machine->gregs[REG_RIP];
#else
  uint64_t at = (uint64_t)machine->pc;
#endif
  uint32_t index = __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
  addresses[index % CAPACITY] = at;
}

int sampler_start(long microseconds) {
  struct sigaction action;
  struct itimerval every = {{0, microseconds}, {0, microseconds}};
  memset(&action, 0, sizeof action);
  action.sa_sigaction = record;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  count = 0;
  return sigaction(SIGPROF, &action, 0) || setitimer(ITIMER_PROF, &every, 0);
}

/* The handler stays: a tick may still be on its way, and by default it ends the process. */
void sampler_stop(void) {
  struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_PROF, &never, 0);
}

uint32_t sampler_count(void) { return count < CAPACITY ? count : CAPACITY; }
const uint64_t* sampler_addresses(void) { return addresses; }
