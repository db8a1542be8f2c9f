/* What a candidate on CUDA may reach: Landlock's rules and the seccomp filter, both of which leave the driver its
 * devices. The driver's own threads are bound by the early rules, the one that calls the unit by the late ones, too. */
#pragma once
#include "runner_common.h"

#include <stdio.h>

#include <vector>

/* The devices, and what `more` adds to them. */
static uint64_t landlock_but_devices(const struct place* more, int count) {
  static char numbered[16][24];
  static const char* const devices[] = {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
                                        "/dev/nvidia-modeset", "/dev/nvidia-caps", "/dev/dxg", "/dev/null"};
  std::vector<struct place> places(more, more + count);
  for (const char* path : devices) places.push_back({path, LL_READ | LL_WRITE | LL_IOCTL});
  for (int i = 0; i < 16; i++) {
    snprintf(numbered[i], sizeof numbered[i], "/dev/nvidia%d", i);
    places.push_back({numbered[i], LL_READ | LL_WRITE | LL_IOCTL});
  }
  return landlock(places.data(), (int)places.size());
}

/* cuInit fails where it cannot write the names of its threads, below /proc/self. */
static uint64_t landlock_early() {
  const uint64_t look = LL_READ | LL_LIST;
  const struct place places[] = {{"/", LL_EXECUTE | look}, {"/proc/self", LL_WRITE | LL_TRUNCATE | look}};
  return landlock_but_devices(places, 2);
}

static uint64_t landlock_late(const std::vector<const char*>& libraries) {
  const uint64_t look = LL_READ | LL_LIST;
  std::vector<struct place> places = {
      {"/proc/self", LL_WRITE | LL_TRUNCATE | look}, {"/proc/driver", look}, {"/sys", look}};
  for (const char* library : libraries) places.push_back({library, LL_READ});
  return landlock_but_devices(places.data(), (int)places.size());
}

/* What computing and a CUDA driver need; what starts programs or reaches other processes and machines kills, any other
 * call fails with EPERM, since the driver may try calls that it can do without. */
static int confine_calls() {
  const struct sock_filter code[] = {
      SAME_ARCHITECTURE,
      ALLOW(ioctl), ALLOW(futex), ALLOW(read), ALLOW(write), ALLOW(readv), ALLOW(writev), ALLOW(mmap), ALLOW(munmap),
      ALLOW(mprotect), ALLOW(mremap), ALLOW(madvise), ALLOW(brk), ALLOW(openat), ALLOW(close), ALLOW(fstat),
      ALLOW(newfstatat), ALLOW(statx), ALLOW(faccessat), ALLOW(readlinkat), ALLOW(getdents64), ALLOW(pread64),
      ALLOW(lseek), ALLOW(fcntl), ALLOW(dup), ALLOW(ppoll), ALLOW(eventfd2), ALLOW(pipe2), ALLOW(epoll_create1),
      ALLOW(epoll_ctl), ALLOW(epoll_pwait), ALLOW(getcwd), ALLOW(sched_yield), ALLOW(sched_getaffinity),
      ALLOW(clock_gettime), ALLOW(clock_nanosleep), ALLOW(nanosleep), ALLOW(gettimeofday), ALLOW(getpid),
      ALLOW(gettid),
      ALLOW(getppid), ALLOW(getuid), ALLOW(geteuid), ALLOW(getgid), ALLOW(getegid), ALLOW(uname), ALLOW(sysinfo),
      ALLOW(getrusage), ALLOW(getrandom), ALLOW(membarrier), ALLOW(mincore), ALLOW(get_mempolicy),
      ALLOW(set_mempolicy), ALLOW(mbind), ALLOW(mlock), ALLOW(munlock), ALLOW(rt_sigaction),
      ALLOW(rt_sigprocmask), ALLOW(rt_sigreturn), ALLOW(sigaltstack), ALLOW(restart_syscall),
      ALLOW(set_robust_list), ALLOW(exit), ALLOW(exit_group),
#ifdef __NR_rseq
      ALLOW(rseq),
#endif
#ifdef __x86_64__
      ALLOW(poll), ALLOW(stat), ALLOW(access), ALLOW(readlink), ALLOW(epoll_wait), ALLOW(arch_prctl),
      KILL(fork), KILL(vfork),
#endif
      ALLOW_IF(tgkill, 0, getpid()), ALLOW_IF(prctl, 0, PR_SET_NAME),
      /* Threads of the driver: arguments of clone3 cannot be looked at, libc then takes clone. */
#ifdef __NR_clone3
      REFUSE(clone3, ENOSYS),
#endif
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 0, 4), LOAD(args[0]),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x10000 /* CLONE_THREAD */, 0, 1), RETURN(SECCOMP_RET_ALLOW),
      RETURN(SECCOMP_RET_KILL_PROCESS),
      KILL(execve), KILL(execveat), KILL(socket), KILL(socketpair), KILL(connect), KILL(sendto), KILL(sendmsg),
      KILL(kill), KILL(tkill), KILL(tgkill), KILL(ptrace), KILL(process_vm_readv), KILL(process_vm_writev),
      KILL(setsid), KILL(setpgid), RETURN(SECCOMP_RET_ERRNO | EPERM),
  };
  return install(code, sizeof code / sizeof *code);
}
