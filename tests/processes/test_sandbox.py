"""The sandbox, entered for real in child processes; its filter, interpreted for both architectures."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.processes import sandbox


def confined(folder: Path, code: str, **options: object) -> list[object]:
    """Run `code` (which fills the list `seen`) in a process restricted to `folder`."""
    settings = {"memory_bytes": 1 << 29, **options}
    script = textwrap.dedent(
        """
        import json, os, sys, errno
        from pathlib import Path
        from warpsmith.processes.sandbox import restrict
        seen = []
        def attempt(call, *args):
            try:
                call(*args)
                seen.append("done")
            except OSError as error:
                seen.append(errno.errorcode[error.errno])
            except MemoryError:
                seen.append("MemoryError")
        """
    )
    script += f"level = restrict([Path({str(folder)!r})], **json.loads({json.dumps(settings)!r}))\n"
    script += textwrap.dedent(code) + "\nprint(json.dumps([level, seen]))\n"
    # torch, imported by other tests of this process, names a cache folder in the environment: not writable in there.
    env = {k: v for k, v in os.environ.items() if k not in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=240, env=env
    )
    assert done.returncode == 0, done.stderr
    level, seen = json.loads(done.stdout)
    assert level.endswith("rlimits")
    return [level, *seen]


def test_writes_go_to_its_folder_only(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (tmp_path / "victim").write_text("data")
    level, *seen = confined(
        folder,
        f"""
        attempt(Path("{folder}/new").write_text, "x")
        attempt(Path("{tmp_path}/new").write_text, "x")
        attempt(Path("{tmp_path}/victim").write_text, "x")
        attempt(os.truncate, "{tmp_path}/victim", 0)
        attempt(os.unlink, "{tmp_path}/victim")
        attempt(os.rename, "{folder}/new", "{tmp_path}/moved")
        attempt(Path("{tmp_path}/victim").read_text)
        attempt(Path("/dev/null").write_text, "x")
        """,
    )
    if "landlock" not in str(level):
        pytest.skip("this kernel has no Landlock")
    assert seen[0] == "done"
    assert set(seen[1:6]) <= {"EACCES", "EXDEV"}
    assert seen[6:] == ["done", "done"]
    assert (tmp_path / "victim").read_text() == "data"


def test_reading_can_be_limited(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("data")
    code = f'attempt(Path("{tmp_path}/secret").read_text)\nattempt(os.listdir, "/usr")'
    own = tmp_path / "own"
    own.mkdir()
    level, *seen = confined(own, code.replace("\n", "\n"), readable=None)
    assert seen == ["done", "done"]
    script = f"restrict([Path({str(own)!r})], memory_bytes=None, readable=[Path('/usr')])"
    level, *seen = confined(own, f"level = {script}\n{code}")
    if "landlock" in str(level):
        assert seen == ["EACCES", "done"]


def test_network_and_other_processes_are_out_of_reach(tmp_path: Path) -> None:
    level, *seen = confined(
        tmp_path,
        """
        import ctypes, signal, socket
        libc = ctypes.CDLL(None, use_errno=True)
        def ptrace_parent():
            if libc.ptrace(16, os.getppid(), 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "")
        def namespace():
            if libc.unshare(0x10000000) != 0:
                raise OSError(ctypes.get_errno(), "")
        attempt(socket.socket, socket.AF_INET)
        attempt(socket.socket, socket.AF_INET6)
        attempt(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW)
        attempt(socket.socket, socket.AF_UNIX)
        attempt(socket.socketpair)
        attempt(ptrace_parent)
        attempt(namespace)
        attempt(os.kill, os.getppid(), 0)
        """,
    )
    if "seccomp" not in str(level):
        pytest.skip("this kernel has no seccomp")
    assert seen[:7] == ["EPERM", "EPERM", "EPERM", "done", "done", "EPERM", "EPERM"]
    if "landlock7" in str(level):
        assert seen[7] == "EPERM"


def test_network_can_be_left_on(tmp_path: Path) -> None:
    assert (
        confined(tmp_path, "import socket\nattempt(socket.socket, socket.AF_INET)", network=True)[1] == "done"
    )


@pytest.mark.parametrize("allowed", [True, False])
def test_new_processes(tmp_path: Path, allowed: bool) -> None:
    level, *seen = confined(
        tmp_path,
        """
        import subprocess, threading
        def thread():
            t = threading.Thread(target=lambda: seen.append("thread"))
            t.start()
            t.join()
        attempt(thread)
        attempt(subprocess.run, ["true"])
        """,
        new_processes=allowed,
    )
    if "seccomp" in str(level):
        assert seen == ["thread", "done", "done" if allowed else "EPERM"]


def test_memory_is_limited(tmp_path: Path) -> None:
    code = "attempt(bytearray, 1 << 28)\nattempt(bytearray, 1 << 30)\nattempt(bytearray, 100 << 30)"
    assert confined(tmp_path, code)[1:] == ["done", "MemoryError", "MemoryError"]


def test_temporary_files_go_to_its_folder(tmp_path: Path) -> None:
    assert confined(tmp_path, "import tempfile\nseen.append(tempfile.mkdtemp())")[1].startswith(str(tmp_path))  # type: ignore[attr-defined]


def test_openmp_still_works(tmp_path: Path) -> None:
    code = """
    import numpy as np
    a = np.ones((500, 500), np.float32)
    seen.append(float((a @ a)[0, 0]))
    """
    assert confined(tmp_path, code, new_processes=False)[1] == 500.0


@pytest.mark.slow
def test_torch_compile_still_works(tmp_path: Path) -> None:
    code = """
    import torch._inductor.config
    torch._inductor.config.cpp_cache_precompile_headers = False
    torch._inductor.config.cpp.vec_isa_ok = True  # not a trial of each instruction set
    f = torch.compile(lambda x: torch.softmax(x * 2, -1))
    x = torch.randn(8, 8)
    seen.append(bool(torch.allclose(f(x), torch.softmax(x * 2, -1), atol=1e-6)))
    """
    assert confined(tmp_path, code, memory_bytes=8 << 30)[1] is True


def test_command_becomes_the_program(tmp_path: Path) -> None:
    argv = sandbox.command(
        [tmp_path],
        memory_bytes=1 << 30,
        cpu_seconds=9,
        argv=["/bin/sh", "-c", "ulimit -t; echo x > /tmp/no-way"],
    )
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.stdout.split() == ["9"]
    assert done.returncode != 0


def interpret(program: list[tuple[int, int, int, int]], number: int, arch: int, argument: int = 0) -> int:
    """A classic BPF machine with the five instructions the filters use; returns the verdict."""
    data = {0: number, 4: arch, 16: argument & 0xFFFFFFFF}
    accumulator, at = 0, 0
    while True:
        code, yes, no, k = program[at]
        at += 1
        if code == sandbox.LOAD:
            accumulator = data[k]
        elif code == sandbox.RET:
            return k
        else:
            tests = {
                sandbox.JEQ: accumulator == k,
                sandbox.JGE: accumulator >= k,
                sandbox.JSET: bool(accumulator & k),
            }
            at += yes if tests[code] else no


EPERM, ENOSYS = sandbox.DENY | errno.EPERM, sandbox.DENY | errno.ENOSYS


@pytest.mark.parametrize("machine", [0, 1])
@given(st.booleans(), st.booleans(), st.integers(0, 500), st.integers(0, 2**32 - 1))
def test_filter(machine: int, network: bool, processes: bool, number: int, argument: int) -> None:
    program = sandbox.filter_program(machine, network, processes)
    assert len(program) < 4096
    verdict = interpret(program, number, sandbox.AUDIT_ARCH[machine], argument)
    names = sandbox.DENIED if processes else {**sandbox.DENIED, **sandbox.FORKS}
    expected = sandbox.ALLOW
    if number in {pair[machine] for pair in names.values()}:
        expected = EPERM
    elif number == sandbox.CLONE3[machine]:
        expected = ENOSYS
    elif number == sandbox.SOCKET[machine] and not network and argument != 1:
        expected = EPERM
    elif number == sandbox.CLONE[machine]:
        thread = bool(argument & sandbox.CLONE_THREAD)
        expected = (
            EPERM if argument & sandbox.CLONE_NAMESPACES or not (processes or thread) else sandbox.ALLOW
        )
    assert verdict == expected
    assert interpret(program, number, sandbox.AUDIT_ARCH[1 - machine], argument) == sandbox.KILL


@pytest.mark.parametrize("machine", [0, 1])
def test_filter_at_the_clone_and_socket_calls(machine: int) -> None:
    arch = sandbox.AUDIT_ARCH[machine]
    closed, opened = (sandbox.filter_program(machine, on, on) for on in (False, True))
    clone, socket = sandbox.CLONE[machine], sandbox.SOCKET[machine]
    assert interpret(closed, clone, arch, sandbox.CLONE_THREAD) == sandbox.ALLOW
    assert interpret(closed, clone, arch, 17) == EPERM
    assert interpret(opened, clone, arch, 17) == sandbox.ALLOW
    assert interpret(opened, clone, arch, 0x10000000) == EPERM
    assert interpret(closed, socket, arch, 1) == sandbox.ALLOW
    assert interpret(closed, socket, arch, 2) == EPERM
    assert interpret(opened, socket, arch, 2) == sandbox.ALLOW


def test_processes_can_be_denied_later_and_threads_stay(tmp_path: Path) -> None:
    code = """
    from threading import Thread
    from warpsmith.processes.sandbox import deny_processes
    attempt(lambda: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0))
    denied = deny_processes()
    attempt(os.posix_spawn, "/bin/true", ["true"], {})
    thread = Thread(target=lambda: seen.append("a thread"))
    thread.start()
    thread.join()
    seen.append(denied)
    """
    _level, *seen, denied = confined(tmp_path, code)
    if not denied:
        pytest.skip("this kernel has no seccomp")
    assert seen == ["done", "EPERM", "a thread"]
