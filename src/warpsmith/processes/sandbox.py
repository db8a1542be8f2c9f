"""Confine the calling process: what it may write, reach, start and use up.

In: the folders it may write, a memory allowance, whether it may open network sockets and start processes.
Out: the name of what is in force, such as "landlock7+seccomp+rlimits"; each part that the kernel lacks is
left out of the name. Call it before any thread is started: Landlock binds the calling thread and what it
starts later (seccomp is synchronised to all threads). Run as a script, `python sandbox.py … command …`
confines itself and becomes the command, which is how compilers are started; so this file imports little,
and of the standard library only: `json`, `pathlib` and `tempfile` take longer than all the rest.

Sources: Linux `Documentation/userspace-api/{landlock,seccomp_filter}.rst`, `man 2 seccomp`, `man 2
setrlimit`."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FILE_BYTES = 16 << 30  # largest file a confined process may write
OPEN_FILES = 4096
# Address space beyond the allowance, for mappings that hold no memory: libraries, thread arenas.
MAPPED_SLACK = 8 << 30

# Numbers of the system calls that are refused, (x86_64, aarch64).
DENIED = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module":
    (313, 273), "delete_module": (176, 106), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168,
    225), "acct": (163, 89), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot":
    (161, 51), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431,
    431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "unshare": (272, 97),
    "setns": (308, 268), "open_by_handle_at": (304, 265), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "pidfd_getfd": (438, 438), "settimeofday": (164, 170), "clock_settime": (227, 112), "sethostname": (170,
    161), "setdomainname": (171, 162), "quotactl": (179, 60),
}  # fmt: skip
FORKS = {"fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281)}
SOCKET, CLONE, CLONE3, SECCOMP = (41, 198), (56, 220), (435, 435), (317, 277)
AUDIT_ARCH = (0xC000003E, 0xC00000B7)
CLONE_THREAD, CLONE_NAMESPACES = 0x00010000, 0x7E020000  # CLONE_NEWNS … CLONE_NEWNET
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446  # the same on every architecture
LOAD, JEQ, JGE, JSET, RET = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, DENY = 0x7FFF0000, 0x80000000, 0x00050000

_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read file, read folder


def restrict(
    writable: Sequence[Path | str],
    *,
    memory_bytes: int | None,
    network: bool = False,
    new_processes: bool = True,
    cpu_seconds: int | None = None,
    readable: Sequence[Path | str] | None = None,
) -> str:
    """Confine this process for good; returns the level in force.

    `memory_bytes` comes on top of what is allocated at the call (private writable memory; each child has
    the same allowance again). `readable`: folders that may be read, None: all. Temporary files go to the
    first writable folder from here on. Raises nothing for what the kernel lacks; OSError when a part exists
    and refuses to work."""
    libc = ctypes.CDLL(None, use_errno=True)
    has_threads = len(os.listdir("/proc/self/task")) > 1 if os.path.isdir("/proc/self/task") else False
    if writable:
        os.environ["TMPDIR"] = str(writable[0])
        if "tempfile" in sys.modules:  # it may have looked before
            import tempfile

            tempfile.tempdir = str(writable[0])
    _limit(memory_bytes, cpu_seconds)
    parts = ["rlimits"]
    if sys.platform == "linux" and libc.prctl(38, 1, 0, 0, 0) == 0:  # PR_SET_NO_NEW_PRIVS
        if _seccomp(libc, network, new_processes):
            parts.insert(0, "seccomp")
        abi = _landlock(libc, writable, readable, network)
        if abi:
            parts.insert(0, f"landlock{abi}" + ("(one thread)" if has_threads else ""))
    return "+".join(parts)


def deny_processes() -> bool:
    """Start no process from here on, from any thread; returns whether the kernel sees to it."""
    return sys.platform == "linux" and _seccomp(ctypes.CDLL(None, use_errno=True), True, False)


def _limit(memory_bytes: int | None, cpu_seconds: int | None) -> None:
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: FILE_BYTES, resource.RLIMIT_NOFILE: OPEN_FILES}
    if memory_bytes is not None:
        mapped, data = _memory_now()
        limits[resource.RLIMIT_DATA] = data + memory_bytes
        limits[resource.RLIMIT_AS] = mapped + memory_bytes + MAPPED_SLACK
    if cpu_seconds is not None:
        limits[resource.RLIMIT_CPU] = cpu_seconds
    for kind, value in limits.items():
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _memory_now() -> tuple[int, int]:
    """Bytes of address space mapped, and of private writable memory, by this process."""
    try:
        with open("/proc/self/statm") as file:
            fields = file.read().split()
    except OSError:
        return 0, 0
    return int(fields[0]) * resource.getpagesize(), int(fields[5]) * resource.getpagesize()


def _landlock(
    libc: ctypes.CDLL, writable: Sequence[Path | str], readable: Sequence[Path | str] | None, network: bool
) -> int:
    """Returns the Landlock ABI in force, 0 where there is none."""
    abi = int(libc.syscall(LANDLOCK_CREATE, None, 0, 1))
    if abi < 1:
        return 0
    everything = (1 << 13) - 1
    for since, bit in ((2, 13), (3, 14), (5, 15)):  # refer, truncate, ioctl on devices
        everything |= (1 << bit) if abi >= since else 0
    handled = everything if readable is not None else everything & ~_READ
    tcp = 3 if abi >= 4 and not network else 0  # bind and connect
    scoped = 3 if abi >= 6 else 0  # abstract sockets and signals of processes outside
    attributes = struct.pack("QQQ", handled, tcp, scoped)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = int(libc.syscall(LANDLOCK_CREATE, ctypes.c_char_p(attributes), size, 0))
    if ruleset < 0:
        return 0
    try:
        for path in (*writable, "/dev/null"):
            _allow(libc, ruleset, path, handled)
        for path in readable or ():
            _allow(libc, ruleset, path, handled & _READ)
        return abi if libc.syscall(LANDLOCK_RESTRICT, ruleset, 0) == 0 else 0
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path | str, access: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not os.path.isdir(path):  # rights on folder entries are refused for a file
            access &= 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
        if libc.syscall(LANDLOCK_ADD, ruleset, 1, ctypes.c_char_p(struct.pack("=Qi", access, fd)), 0) != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"landlock: {os.strerror(code)}", str(path))
    finally:
        os.close(fd)


def _seccomp(libc: ctypes.CDLL, network: bool, new_processes: bool) -> bool:
    machine = {"x86_64": 0, "aarch64": 1}.get(os.uname().machine)
    if machine is None:
        return False
    program = filter_program(machine, network, new_processes)
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *i) for i in program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    if libc.syscall(SECCOMP[machine], 1, 1, header) == 0:  # SET_MODE_FILTER, FLAG_TSYNC
        return True
    return bool(libc.prctl(22, 2, header, 0, 0) == 0)  # PR_SET_SECCOMP, MODE_FILTER


def filter_program(machine: int, network: bool, new_processes: bool) -> list[tuple[int, int, int, int]]:
    """A classic BPF program of (code, jump if true, jump if false, operand); `machine` 0: x86_64, 1:
    aarch64."""
    deny = (RET, 0, 0, DENY | errno.EPERM)
    program = [(LOAD, 0, 0, 4), (JEQ, 1, 0, AUDIT_ARCH[machine]), (RET, 0, 0, KILL), (LOAD, 0, 0, 0)]
    if machine == 0:
        program += [(JGE, 0, 1, 0x40000000), deny]  # the x32 calls
    names = DENIED if new_processes else {**DENIED, **FORKS}
    for number in (pair[machine] for pair in names.values()):
        if number is not None:
            program += [(JEQ, 0, 1, number), deny]
    # Arguments of clone3 lie behind a pointer that a filter cannot follow; libc falls back to clone.
    program += [(JEQ, 0, 1, CLONE3[machine]), (RET, 0, 0, DENY | errno.ENOSYS)]
    if not network:
        program += [
            (JEQ, 0, 4, SOCKET[machine]),
            (LOAD, 0, 0, 16),
            (JEQ, 1, 0, 1),
            deny,
            (LOAD, 0, 0, 0),
        ]  # AF_UNIX
    program += [
        (JEQ, 0, 4, CLONE[machine]),
        (LOAD, 0, 0, 16),
        (JSET, 0, 1, CLONE_NAMESPACES),
        deny,
        (LOAD, 0, 0, 0),
    ]
    if not new_processes:
        program += [(JEQ, 0, 3, CLONE[machine]), (LOAD, 0, 0, 16), (JSET, 1, 0, CLONE_THREAD), deny]
    return [*program, (RET, 0, 0, ALLOW)]


def command(
    writable: Sequence[Path], *, memory_bytes: int | None, cpu_seconds: int, argv: Sequence[str],
    readable: Sequence[Path | str] | None = None,
) -> list[str]:  # fmt: skip
    """Return a command line that runs `argv` confined, killed when the calling thread's process dies. `readable` as in `restrict`."""
    limits = (os.getpid(), cpu_seconds, "" if memory_bytes is None else memory_bytes)
    counts = (len(writable), "" if readable is None else len(readable))
    folders = (*writable, *(readable or ()))
    return [sys.executable, "-I", "-S", __file__, *map(str, (*limits, *counts, *folders)), *argv]


def _main(arguments: list[str]) -> None:
    """Run the command line of `command`: the parent, seconds, bytes, two numbers of folders, the folders, the command."""
    parent, seconds, memory, writable, readable = arguments[:5]
    middle = 5 + int(writable)
    end = middle + int(readable or 0)
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
    if os.getppid() != int(parent):
        os._exit(1)
    restrict(
        arguments[5:middle], memory_bytes=int(memory) if memory else None, cpu_seconds=int(seconds),
        readable=arguments[middle:end] if readable else None,
    )  # fmt: skip
    os.execv(arguments[end], arguments[end:])


if __name__ == "__main__":
    _main(sys.argv[1:])
