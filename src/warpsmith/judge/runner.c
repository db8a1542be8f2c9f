/* The candidate runner: an untrusted, one-shot process that loads one unit's library and calls it on shared buffers.
 *
 * In: numbers on the command line, the library's path, commands of fixed size over a pipe. Out: replies of fixed size.
 * It knows the buffers and nothing else: no reference, no expected output, no verdict. It confines itself before it
 * loads the library and once more after, so that a unit can compute and answer, and do nothing else. The supervisor
 * reads results from the shared bytes, by its own clock, while this process is stopped.
 *
 * Steps: die with the parent, start the OpenMP pool, limit resources, Landlock, seccomp, dlopen, seccomp again, serve.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <omp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#define ARCH 0
#endif

enum { OP_MAP = 1, OP_RUN = 2, OP_TIME = 3 };
enum { MAX_BUFFERS = 512 };

struct command {
  uint64_t op, size, count, flush;    /* OP_MAP: size of the arena. OP_TIME: how many calls, and whether cold. */
  uint64_t workspace, results;        /* offsets in the arena */
  uint64_t buffers[MAX_BUFFERS];      /* offsets in the arena: inputs, then outputs */
};

struct reply {
  uint64_t status, value, landlock, seccomp; /* value: nanoseconds, or the workspace's bytes in the first reply */
};

typedef void (*run_function)(const void* const*, void* const*, void*, void*);
typedef uint64_t (*bytes_function)(void);

struct setting { /* argv, in this order */
  uint64_t request, answer, arena, inputs, outputs, threads, memory, mapped, parent, flush;
};

static uint64_t nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void fail(int code) { _exit(code); } /* codes are named in runner.py */

static void exact(int fd, void* data, size_t size, int writing) {
  char* at = data;
  while (size > 0) {
    ssize_t n = writing ? write(fd, at, size) : read(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(n == 0 && !writing ? 0 : 40);
    at += n;
    size -= (size_t)n;
  }
}

static void limit(int kind, uint64_t value) {
  struct rlimit now;
  if (getrlimit(kind, &now) == 0 && now.rlim_max != RLIM_INFINITY && now.rlim_max < value) value = now.rlim_max;
  struct rlimit wanted = {value, value};
  if (setrlimit(kind, &wanted) != 0) fail(41);
}

/* Private memory and address space beyond what is in use now. */
static void limit_memory(uint64_t memory, uint64_t mapped) {
  char text[256] = {0};
  int fd = open("/proc/self/statm", O_RDONLY);
  if (fd < 0 || read(fd, text, sizeof text - 1) <= 0) fail(42);
  close(fd);
  uint64_t fields[6] = {0}, page = (uint64_t)sysconf(_SC_PAGESIZE);
  char* at = text;
  for (int i = 0; i < 6; i++) fields[i] = strtoull(at, &at, 10);
  limit(RLIMIT_DATA, fields[5] * page + memory);
  limit(RLIMIT_AS, fields[0] * page + memory + mapped);
}

/* Landlock: nothing may be written, and only the library read. Returns the ABI in force, 0 for none. */
static uint64_t landlock(const char* library) {
  long abi = syscall(444, NULL, 0, 1);
  if (abi < 1) return 0;
  struct { uint64_t fs, net, scoped; } rules = {(1u << 13) - 1, abi >= 4 ? 3 : 0, abi >= 6 ? 3 : 0};
  for (int since = 2; since <= 3; since++) rules.fs |= abi >= since ? 1u << (since + 11) : 0;
  rules.fs |= abi >= 5 ? 1u << 15 : 0;
  int set = (int)syscall(444, &rules, abi < 4 ? 8 : abi < 6 ? 16 : 24, 0);
  if (set < 0) return 0;
  struct __attribute__((packed)) { uint64_t access; int32_t fd; } below = {1u << 2, open(library, O_PATH | O_CLOEXEC)};
  if (below.fd < 0) fail(43);
  long added = syscall(445, set, 1, &below, 0), ruled = syscall(446, set, 0);
  close(below.fd);
  close(set);
  return added == 0 && ruled == 0 ? (uint64_t)abi : 0;
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##call, 0, 1), RETURN(SECCOMP_RET_ALLOW)
#define REFUSE(call, error) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##call, 0, 1), RETURN(SECCOMP_RET_ERRNO | (error))
/* `call` with argument `n` equal to `value` is allowed; any other use falls through to the end. */
#define ALLOW_IF(call, n, value)                                                                        \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##call, 0, 4), LOAD(args[n]),                                \
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), 0, 1), RETURN(SECCOMP_RET_ALLOW), LOAD(nr)
/* `call` with any of `bits` set in argument `n` gets EPERM; otherwise it is allowed. */
#define REFUSE_BITS(call, n, bits)                                                                      \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##call, 0, 4), LOAD(args[n]),                                \
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (uint32_t)(bits), 0, 1), RETURN(SECCOMP_RET_ERRNO | EPERM),  \
      RETURN(SECCOMP_RET_ALLOW)

static int install(const struct sock_filter* code, size_t length) {
  struct sock_fprog program = {(unsigned short)length, (struct sock_filter*)code};
  /* Every thread of the pool takes the filter, or none does. */
  return syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

/* What computing, one OpenMP pool and a dlopen need; a call that is not here kills the process with SIGSYS. */
static int confine_calls(int answer) {
  const uint32_t writes = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;
  const struct sock_filter code[] = {
      LOAD(arch), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0), RETURN(SECCOMP_RET_KILL_PROCESS), LOAD(nr),
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
  for (size_t i = 0; i < sizeof s / sizeof *fields; i++) fields[i] = strtoull(argv[i + 1], NULL, 10);
  if (s.inputs + s.outputs > MAX_BUFFERS) fail(46);
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if ((uint64_t)getppid() != s.parent) fail(47);

  start_pool((int)s.threads);
  char* flush = mmap(NULL, s.flush ? s.flush : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (flush == MAP_FAILED) fail(48);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_NOFILE, 64);
  limit_memory(s.memory, s.mapped);
  struct reply hello = {0, 0, 0, 0};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) {
    hello.landlock = landlock(argv[argc - 1]);
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
