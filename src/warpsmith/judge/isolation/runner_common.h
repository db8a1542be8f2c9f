/* What the candidate runners share: the protocol with the supervisor, limits, Landlock, the words of a seccomp filter.
 *
 * C and C++; included once by each runner. Codes of `fail` are named in runner.py.
 */
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
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

enum { OP_MAP = 1, OP_RUN = 2, OP_TIME = 3, OP_PICK = 4 };
enum { MAX_BUFFERS = 512 };

struct command {
  uint64_t op, size, count, flush;    /* OP_MAP: size of the arena. OP_TIME: how many calls, and whether cold. OP_PICK: which library, as the count. */
  uint64_t workspace, results;        /* offsets in the arena */
  uint64_t buffers[MAX_BUFFERS];      /* offsets in the arena: inputs, then outputs */
};

struct reply {
  uint64_t status, value, landlock, seccomp; /* value: nanoseconds, or the workspace's bytes in the first reply */
};

typedef uint64_t (*bytes_function)(void);

static uint64_t nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void fail(int code) { _exit(code); }

static void exact(int fd, void* data, size_t size, int writing) {
  char* at = (char*)data;
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
  if (getrlimit((__rlimit_resource_t)kind, &now) == 0 && now.rlim_max != RLIM_INFINITY && now.rlim_max < value)
    value = now.rlim_max;
  struct rlimit wanted = {value, value};
  if (setrlimit((__rlimit_resource_t)kind, &wanted) != 0) fail(41);
}

/* Private memory beyond what is in use now, and address space beyond it where `mapped` is not zero. */
static void limit_memory(uint64_t memory, uint64_t mapped) {
  char text[256] = {0};
  int fd = open("/proc/self/statm", O_RDONLY);
  if (fd < 0 || read(fd, text, sizeof text - 1) <= 0) fail(42);
  close(fd);
  uint64_t fields[6] = {0}, page = (uint64_t)sysconf(_SC_PAGESIZE);
  char* at = text;
  for (int i = 0; i < 6; i++) fields[i] = strtoull(at, &at, 10);
  limit(RLIMIT_DATA, fields[5] * page + memory);
  if (mapped) limit(RLIMIT_AS, fields[0] * page + memory + mapped);
}

/* Numbers of the command line into a struct of uint64_t, then the parent's death is ours, too. */
static void settings(char** argv, uint64_t* fields, size_t count) {
  for (size_t i = 0; i < count; i++) fields[i] = strtoull(argv[i + 1], NULL, 10);
}

static void die_with(uint64_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if ((uint64_t)getppid() != parent) fail(47);
}

/* Landlock's rights: what may be done with files, from `man 7 landlock`. */
enum {
  LL_EXECUTE = 1u << 0, LL_WRITE = 1u << 1, LL_READ = 1u << 2, LL_LIST = 1u << 3, LL_TRUNCATE = 1u << 14,
  LL_IOCTL = 1u << 15
};

struct place {
  const char* path;
  uint64_t rights;
};

/* Nothing may be done with files but what `places` allow (those that do not exist are left out). Returns the ABI in
 * force, 0 for none. */
static uint64_t landlock(const struct place* places, int count) {
  long abi = syscall(444, NULL, 0, 1);
  if (abi < 1) return 0;
  struct { uint64_t fs, net, scoped; } rules = {(1u << 13) - 1, abi >= 4 ? 3u : 0u, abi >= 6 ? 3u : 0u};
  for (int since = 2; since <= 3; since++) rules.fs |= abi >= since ? 1u << (since + 11) : 0;
  rules.fs |= abi >= 5 ? (uint64_t)LL_IOCTL : 0;
  int set = (int)syscall(444, &rules, abi < 4 ? 8 : abi < 6 ? 16 : 24, 0);
  if (set < 0) return 0;
  long added = 0;
  for (int i = 0; i < count; i++) {
    struct __attribute__((packed)) { uint64_t access; int32_t fd; } below = {places[i].rights & rules.fs, -1};
    below.fd = open(places[i].path, O_PATH | O_CLOEXEC);
    if (below.fd < 0) continue;
    added |= syscall(445, set, 1, &below, 0);
    close(below.fd);
  }
  long ruled = syscall(446, set, 0);
  close(set);
  return added == 0 && ruled == 0 ? (uint64_t)abi : 0;
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
#define ON(call, what) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##call, 0, 1), RETURN(what)
#define ALLOW(call) ON(call, SECCOMP_RET_ALLOW)
#define KILL(call) ON(call, SECCOMP_RET_KILL_PROCESS)
#define REFUSE(call, error) ON(call, SECCOMP_RET_ERRNO | (error))
/* `call` with argument `n` equal to `value` is allowed; any other use falls through to the end. */
#define ALLOW_IF(call, n, value)                                                                        \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##call, 0, 4), LOAD(args[n]),                                \
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), 0, 1), RETURN(SECCOMP_RET_ALLOW), LOAD(nr)
/* `call` with any of `bits` set in argument `n` gets EPERM; otherwise it is allowed. */
#define REFUSE_BITS(call, n, bits)                                                                      \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##call, 0, 4), LOAD(args[n]),                                \
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (uint32_t)(bits), 0, 1), RETURN(SECCOMP_RET_ERRNO | EPERM),  \
      RETURN(SECCOMP_RET_ALLOW)
/* A call of another architecture ends the process. */
#define SAME_ARCHITECTURE                                                                               \
  LOAD(arch), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0), RETURN(SECCOMP_RET_KILL_PROCESS), LOAD(nr)

static int install(const struct sock_filter* code, size_t length) {
  struct sock_fprog program = {(unsigned short)length, (struct sock_filter*)code};
  /* Every thread takes the filter, or none does. */
  return syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}
