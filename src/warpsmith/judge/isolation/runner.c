/* The candidate runner: an untrusted, one-shot process that loads one unit's library and calls it on shared buffers.
 *
 * In: numbers on the command line, the library's path, commands of fixed size over a pipe. Out: replies of fixed size.
 * It knows the buffers and nothing else: no reference, no expected output, no verdict. It confines itself before it
 * loads the library and once more after, so that a unit can compute and answer, and do nothing else. The supervisor
 * reads results from the shared bytes, by its own clock, while this process is stopped.
 *
 * Steps: die with the parent, start the OpenMP pool, limit resources, Landlock, seccomp, dlopen, seccomp again, serve.
 */
#include "runner_common.h"

#include <omp.h>

typedef void (*run_function)(const void* const*, void* const*, void*, void*);

struct setting { /* argv, in this order */
  uint64_t request, answer, arena, inputs, outputs, threads, memory, mapped, parent, flush;
};

/* What computing, one OpenMP pool and a dlopen need; a call that is not here kills the process with SIGSYS. */
static int confine_calls(int answer) {
  const uint32_t writes = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;
  const struct sock_filter code[] = {
      SAME_ARCHITECTURE,
      ALLOW(futex), ALLOW(read), ALLOW(sched_yield), ALLOW(clock_gettime), ALLOW(clock_nanosleep), ALLOW(nanosleep),
      ALLOW(mmap), ALLOW(munmap), ALLOW(mprotect), ALLOW(mremap), ALLOW(madvise), ALLOW(brk), ALLOW(exit),
      ALLOW(exit_group), ALLOW(rt_sigreturn), ALLOW(rt_sigprocmask), ALLOW(restart_syscall),
      ALLOW(sched_getaffinity), ALLOW(getpid), ALLOW(gettid),
      ALLOW(close), ALLOW(fstat), ALLOW(newfstatat), ALLOW(pread64), ALLOW(lseek), ALLOW(getrandom), ALLOW(seccomp),
      ALLOW(getcwd),
#ifdef __NR_rseq
      ALLOW(rseq),
#endif
      /* 2 is /dev/null: the last words of libc go there. */
      ALLOW_IF(write, 0, answer), ALLOW_IF(write, 0, 2), ALLOW_IF(writev, 0, 2),
      ALLOW_IF(tgkill, 0, getpid()), REFUSE_BITS(openat, 2, writes),
#ifdef __NR_clone3
      REFUSE(clone3, ENOSYS),
#endif
      REFUSE(clone, EPERM), RETURN(SECCOMP_RET_KILL_PROCESS),
  };
  return install(code, sizeof code / sizeof *code);
}

/* Once the library is loaded: no file is opened and no memory becomes executable. */
static int confine_more(void) {
  const struct sock_filter code[] = {
      LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_openat, 0, 1), RETURN(SECCOMP_RET_KILL_PROCESS),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_seccomp, 0, 1), RETURN(SECCOMP_RET_KILL_PROCESS),
      REFUSE_BITS(mmap, 2, PROT_EXEC), REFUSE_BITS(mprotect, 2, PROT_EXEC), RETURN(SECCOMP_RET_ALLOW),
  };
  return install(code, sizeof code / sizeof *code);
}

/* Every thread writes its share, so that the private caches of all of them are evicted. */
static void flush_caches(volatile char* buffer, uint64_t bytes, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < (int64_t)bytes; i += 64) buffer[i] = (char)(buffer[i] + 1);
}

struct call {
  run_function run;
  char* arena;
  const void* in[MAX_BUFFERS];
  void* out[MAX_BUFFERS];
};

static void point(struct call* call, const struct command* command, const struct setting* s) {
  for (uint64_t i = 0; i < s->inputs; i++) call->in[i] = call->arena + command->buffers[i];
  for (uint64_t i = 0; i < s->outputs; i++) call->out[i] = call->arena + command->buffers[s->inputs + i];
}

static uint64_t timed_call(const struct call* call, void* workspace) {
  uint64_t start = nanoseconds();
  call->run(call->in, call->out, workspace, NULL);
  return nanoseconds() - start;
}

static void serve(const struct setting* s, run_function run, char* flush) {
  static struct command command;
  static struct call call;
  struct reply reply = {0, 0, 0, 0};
  call.run = run;
  for (;;) {
    exact((int)s->request, &command, sizeof command, 0);
    if (command.op == OP_MAP) {
      void* at = mmap(NULL, command.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, (int)s->arena, 0);
      if (at == MAP_FAILED) fail(44);
      call.arena = at;
      close((int)s->arena);
    } else {
      void* workspace = call.arena + command.workspace;
      uint64_t* results = (uint64_t*)(call.arena + command.results);
      uint64_t total = 0;
      point(&call, &command, s);
      for (uint64_t i = 0; i < command.count; i++) {
        if (command.op == OP_TIME && command.flush) flush_caches(flush, s->flush, (int)s->threads);
        uint64_t spent = timed_call(&call, workspace);
        if (command.op == OP_TIME) results[i] = spent;
        total += spent;
      }
      reply.value = total;
    }
    exact((int)s->answer, &reply, sizeof reply, 1);
  }
}

static void start_pool(int threads) {
  int sum = 0;
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
#pragma omp parallel num_threads(threads) reduction(+ : sum)
  sum += 1;
  if (sum != threads) fail(45);
}

int main(int argc, char** argv) {
  struct setting s;
  uint64_t* fields = (uint64_t*)&s;
  if (argc != (int)(sizeof s / sizeof *fields) + 2) fail(46);
  settings(argv, fields, sizeof s / sizeof *fields);
  if (s.inputs + s.outputs > MAX_BUFFERS) fail(46);
  die_with(s.parent);

  start_pool((int)s.threads);
  char* flush = mmap(NULL, s.flush ? s.flush : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (flush == MAP_FAILED) fail(48);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_NOFILE, 64);
  limit_memory(s.memory, s.mapped);
  struct reply hello = {0, 0, 0, 0};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) {
    const struct place library_only = {argv[argc - 1], LL_READ};
    hello.landlock = landlock(&library_only, 1);
    hello.seccomp = ARCH != 0 && confine_calls((int)s.answer);
  }
  void* library = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fail(49);
  run_function run = (run_function)dlsym(library, "warpsmith_run");
  bytes_function bytes = (bytes_function)dlsym(library, "warpsmith_workspace_bytes");
  if (run == NULL || bytes == NULL) fail(50);
  if (hello.seccomp && !confine_more()) fail(51);
  hello.value = bytes();
  exact((int)s.answer, &hello, sizeof hello, 1);
  serve(&s, run, flush);
}
