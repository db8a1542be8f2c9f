"""The supervisor's side of the candidate runner: one unit's library, run in a confined process on buffers
that live here.

In: a built library, specs of its inputs and outputs, raw bytes of inputs. Out: raw bytes of outputs,
whether guards and inputs are untouched, and times by two clocks. Before a run every byte that is not input
is poisoned (see `arena.py`); after it the process is stopped, and only then are the bytes looked at. The
native side is `runner.c`."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...errors import JudgeError, WarpsmithError
from ...processes import bulk
from ...processes.buffers import Scratch, extent_bytes
from ...processes.run_queue import find_longest_wait_ns, list_queued_ns
from ...processes.waiting import is_readable
from ...processes.worker import kill_tree
from ...records import TensorSpec
from ..device.eviction import flush_bytes
from .arena import POISON, Arena, Bytes
from .runner_program import runner_program

MAX_CALLS = 4096  # in one batch
MAX_BUFFERS = 512
COMMAND = struct.Struct(f"=6Q{MAX_BUFFERS}Q")  # op, arena's size, calls, flush, workspace, results, buffers
REPLY = struct.Struct("=4Q")  # status, value, Landlock's version, seccomp
MAP, RUN, TIME, PICK = 1, 2, 3, 4
ENDING_SECONDS = 5.0  # for a process that closed its pipe to be gone; a CUDA context takes its time
MAX_QUEUED = 6  # times its time-out, that a command may have waited for a processor and is not stopped for
MAPPED_SLACK = 2 << 30  # address space that libraries and allocator arenas may reserve
PASSED_ON = (
    "LD_LIBRARY_PATH", "OMP_PROC_BIND", "OMP_PLACES", "OMP_WAIT_POLICY", "GOMP_CPU_AFFINITY",
    "GOMP_SPINCOUNT",
)  # fmt: skip
ENDINGS = {
    41: "its limits could not be set",
    44: "the buffers could not be mapped",
    45: "the OpenMP pool did not start",
    48: "the cache-flush buffer could not be had",
    49: "its library cannot be loaded",
    50: "its library lacks the entry points",
    51: "its system calls could not be confined",
    60: "no CUDA device could be used",
    62: "it could not be confined",
    63: "its trial kernels did not run on the GPU",
}
SIGNAL_HINTS = {int(signal.SIGSYS): ", a forbidden system call", int(signal.SIGKILL): ", killed from outside"}


def _describe(later: Sequence[Loaded]) -> list[str]:
    """Arguments of the process: arena, numbers of inputs and outputs, library of each."""
    return [
        str(text) for loaded in later for arena in [loaded.arena]
        for text in (arena.fd, arena.inputs, arena.outputs, loaded.library)
    ]  # fmt: skip


class RunnerFailed(WarpsmithError):
    """The candidate's process did not do its part; the subclasses say how."""


class RunnerCrashed(RunnerFailed):
    """It ended: a signal (named), or an exit."""


class NoRoom(RunnerFailed):
    """The device's memory did not hold the buffers of a call, which says nothing of the candidate: others may use it, too."""


class RunnerTimeout(RunnerFailed):
    """It gave no answer in time and was killed with everything it started."""


class RunnerLied(RunnerFailed):
    """Its own times add up to more than the supervisor's clock allows."""


@dataclass(frozen=True)
class RunOutput:
    outputs: list[Bytes]  # raw bytes, extent of each output's spec; what was never written holds the poison
    guard_ok: bool
    inputs_unchanged: bool
    seconds: float  # by the process's own clock
    wall: float  # by the supervisor's, from command to answer
    guard_detail: str = ""  # whose guard was overwritten, and where
    input_detail: str = ""  # which input was overwritten
    values_file: Path | None = None  # the values file whose memory the outputs are


@dataclass(frozen=True)
class Batch:
    ns: list[int]  # one a call, by the process's own clock
    wall: float  # seconds by the supervisor's clock; with `cold` it holds the cache flushes, too
    host: float = 0.0  # seconds by the process's host clock; on CUDA until the device rests, flushes included

    @property
    def share(self) -> float:
        """The process's own times over the supervisor's wall clock: above 1 the process lies."""
        return sum(self.ns) * 1e-9 / self.wall


@dataclass(frozen=True)
class Loaded:
    """A library and the buffers that it is called with."""

    library: Path
    arena: Arena
    outputs: Sequence[TensorSpec]


class CandidateRunner:
    """A confined process with one unit's library loaded. A context manager: the process is gone when it is
    left.

    `threads` in its OpenMP pool; `timeout` seconds for each command, without what it waited for a processor; `memory_bytes` of private memory, and
    at most as much workspace. `program`: the native runner, by default built with `compiler` in the cache that
    holds the library. `seed` decides how buffers move. Start it from a thread that outlives it: the process dies with
    the thread that started it. Raises RunnerCrashed or RunnerTimeout when the library cannot be loaded,
    JudgeError when the buffers cannot be had, ToolchainError when the native runner cannot be built.

    Subclasses say which program runs, with which numbers and variables, and what its statuses mean."""

    passed_on: tuple[str, ...] = PASSED_ON  # variables of the environment that the process may see
    start_seconds = 0.0  # that its start may take beyond `timeout`

    def __init__(
        self, library: Path, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], *, scratch: Scratch,
        threads: int, timeout: float, memory_bytes: int, program: Path | None = None, compiler: str | None = None, seed: int = 0,
        later: Sequence[tuple[Path, Sequence[TensorSpec], Sequence[TensorSpec]]] = (),
    ) -> None:  # fmt: skip
        if max(len(i) + len(o) for _, i, o in ((library, inputs, outputs), *later)) > MAX_BUFFERS:
            raise RunnerCrashed(f"a unit has at most {MAX_BUFFERS} inputs and outputs")
        self.timeout, self._memory, self._scratch = timeout, memory_bytes, scratch
        self._process: subprocess.Popen[bytes] | None = None
        self._request = self._answer = -1
        self._frozen = self._placed = False
        self._extra: Mapping[str, str] = {}  # variables of a process that was started again
        self._all: list[Loaded] = []
        for path, input_specs, output_specs in ((library, inputs, outputs), *later):
            sizes = [extent_bytes(s) for s in input_specs], [extent_bytes(s) for s in output_specs]
            self._all.append(
                Loaded(path, Arena(scratch, *sizes, head=8 * MAX_CALLS, seed=seed), output_specs)
            )
        self._now = self._all[0]
        self._compiler = compiler
        self._program, self._threads = program or self._default_program(), threads
        self._begin()

    def run(self, inputs: Sequence[np.ndarray], poison: int) -> RunOutput:
        """Call the unit once on fresh buffers. `inputs`: raw bytes of each input; `poison` 0 or 1: which
        pattern."""
        raw = [np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in inputs]
        self._arena.place(raw, POISON[poison])
        self._placed = True
        nanoseconds, wall = self._call(self._command(RUN, 1))
        outputs, file = self._copy_outputs(poison)
        guard, changed = self._arena.find_broken_guard(POISON[poison]), self._arena.find_changed_input(raw)
        return RunOutput(outputs, not guard, not changed, nanoseconds * 1e-9, wall, guard, changed, file)

    def batch(self, n: int, cold: bool) -> Batch:
        """Call the unit `n` times on the buffers of the last `run`; `cold`: caches are flushed before each
        call."""
        if not self._placed:
            raise ValueError("run the unit once before it is timed")
        if not 0 < n <= MAX_CALLS:
            raise ValueError(f"a batch is 1 to {MAX_CALLS} calls")
        host, wall = self._call(self._command(TIME, n, cold))
        spent = [int(v) for v in np.frombuffer(self._arena.mapped, np.uint64, n, 0)]
        return Batch(spent, wall, host * 1e-9)

    def time(self, n: int, cold: bool) -> list[int]:
        """Nanoseconds of each of `n` calls; see `batch`. Raises RunnerLied when they exceed the wall
        clock."""
        batch = self.batch(n, cold)
        if batch.share > 1.0:
            raise RunnerLied(f"the unit's own clock ran {batch.share:.2f} times as fast as the judge's")
        return batch.ns

    def restart(self, variables: Mapping[str, str]) -> None:
        """Another process with the same library, on the same buffers as they are now, with these variables in
        its environment."""
        self._end()
        self._extra = variables
        self._begin()

    def pick(self, index: int) -> None:
        """Go on with the library and buffers of `later[index - 1]`, in a process of its own. Those before are closed."""
        self._end()
        self._arena.close()
        self._now, self._placed, self._extra = self._all[index], False, {}
        self._begin()

    def read(self) -> list[Bytes]:
        """Copies of the outputs as they are now; the process is stopped between commands."""
        first = self._arena.inputs
        return [bulk.make_copy(self._arena.view(first + i)) for i in range(self._arena.outputs)]

    def _copy_outputs(self, poison: int) -> tuple[list[Bytes], Path | None]:
        """Copy the outputs; return also the values file that holds them, if one does."""
        return self.read(), None

    def close(self) -> None:
        """Kill the process and everything it started; release the buffers. Safe to call twice."""
        self._end()
        for loaded in self._all:
            loaded.arena.close()

    def _end(self) -> None:
        if self._process is not None:
            kill_tree(self._process)
        for fd in (self._request, self._answer):
            if fd >= 0:
                os.close(fd)
        self._request = self._answer = -1

    def __enter__(self) -> CandidateRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def library(self) -> Path:
        return self._now.library

    @property
    def _arena(self) -> Arena:
        return self._now.arena

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def _begin(self) -> None:
        self._frozen = False
        try:
            self._start()
            self._load()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        described = self._numbers(self._program, self._threads)
        request_r, self._request = os.pipe()
        self._answer, answer_w = os.pipe()
        fds = (request_r, answer_w, self._arena.fd)
        later = self._list_others()
        numbers = (*fds, *described)
        env = {k: os.environ[k] for k in self.passed_on if k in os.environ}
        env |= {**self._variables(self._threads), **self._extra}
        quiet = subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(
                [str(self._program), *map(str, numbers), str(self.library), *_describe(later)], env=env, cwd="/",
                pass_fds=(*fds, *(loaded.arena.fd for loaded in later)), start_new_session=True,
                stdin=quiet, stdout=quiet, stderr=quiet,
            )  # fmt: skip
        except OSError as error:
            raise JudgeError(f"cannot start the candidate runner: {error}") from error
        finally:
            os.close(request_r)
            os.close(answer_w)

    def _list_others(self) -> Sequence[Loaded]:
        """Return the other libraries and buffers that the process gets, to go on with."""
        return ()

    def _default_program(self) -> Path:
        return runner_program(self.library.parent.parent, self._compiler)

    def _numbers(self, program: Path, threads: int) -> tuple[int, ...]:
        """Return the numbers that follow the file descriptors on the command line of `program`."""
        mapped = self._arena.size + self._memory + MAPPED_SLACK
        counts = self._arena.inputs, self._arena.outputs, threads
        return (*counts, self._memory, mapped, os.getpid(), flush_bytes(threads))

    def _variables(self, threads: int) -> dict[str, str]:
        return {"OMP_NUM_THREADS": str(threads), "LC_ALL": "C"}

    def _level(self, landlock: int, seccomp: int) -> str:
        """The confinement that the process says is in force."""
        parts = [f"landlock{landlock}" if landlock else "", "seccomp" if seccomp else "", "rlimits"]
        return "+".join(p for p in parts if p)

    def _explain_status(self, status: int) -> RunnerFailed:
        """Explain a status other than 0 in an answer; the process is of no more use."""
        self.close()
        return RunnerCrashed(f"the unit's process answered with status {status}")

    def _load(self) -> None:
        """Read the first answer, make room for the workspace it asks for, and map the arena on both sides."""
        _, workspace, landlock, seccomp = self._receive(self.timeout + self.start_seconds, {})
        self.isolation = self._level(landlock, seccomp)
        self._make_room(workspace)

    def _make_room(self, workspace: int) -> None:
        if workspace > self._memory:
            requested, allowed = workspace / 2**30, self._memory / 2**30
            raise RunnerCrashed(
                f"the unit asks for {requested:.1f} GiB of workspace; {allowed:.1f} is the limit"
            )
        if self._arena.memory is None:
            self._arena.map(workspace)
        self._call(self._bare(MAP, size=self._arena.size))

    def _bare(self, op: int, size: int = 0, count: int = 0) -> bytes:
        """A command about no buffers."""
        return COMMAND.pack(op, size, count, 0, 0, 0, *[0] * MAX_BUFFERS)

    def _command(self, op: int, count: int, flush: bool = False) -> bytes:
        *buffers, workspace = self._arena.offsets()
        padding = [0] * (MAX_BUFFERS - len(buffers))
        return COMMAND.pack(op, 0, count, int(flush), workspace, 0, *buffers, *padding)

    def _call(self, command: bytes) -> tuple[int, float]:
        """Wake the process, send, wait for the answer, stop the process: its value, and the wall clock's
        seconds."""
        if self._frozen:
            os.killpg(self.pid, signal.SIGCONT)
            self._frozen = False
        queued = list_queued_ns(self.pid)
        started = time.monotonic()
        try:
            os.write(self._request, command)
        except OSError as error:
            raise self._explain_death() from error
        answer = self._receive(self.timeout, queued)
        wall = time.monotonic() - started
        self._freeze()
        return answer[1], wall

    def _receive(self, seconds: float, queued: Mapping[str, int]) -> tuple[int, ...]:
        """Read an answer that may take so long. On a busy machine a unit is not charged for others' work: what its slowest thread has
        waited for a processor since `queued` was listed is added.
        """
        data, started = b"", time.monotonic()
        while len(data) < REPLY.size:
            if not self._wait_for_answer(started, seconds, queued):
                self.close()
                raise RunnerTimeout(f"the unit gave no answer in {self.timeout:g} s and was stopped")
            chunk = os.read(self._answer, REPLY.size - len(data))
            if not chunk:
                raise self._explain_death()
            data += chunk
        answer = REPLY.unpack(data)
        if answer[0]:
            raise self._explain_status(answer[0])
        return answer

    def _wait_for_answer(self, started: float, seconds: float, queued: Mapping[str, int]) -> bool:
        """Wait until there is something to read; False where the time is over."""
        until = started + seconds
        while (remaining := until - time.monotonic()) > 0:
            if is_readable(self._answer, remaining):
                return True
            waited = find_longest_wait_ns(self.pid, queued) * 1e-9
            until = started + seconds + min(waited, MAX_QUEUED * seconds)
        return False

    def _freeze(self) -> None:
        """Stop every thread, so that nothing writes while the arena is looked at."""
        try:
            os.killpg(self.pid, signal.SIGSTOP)
            state = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            if state is None or state.si_code != os.CLD_STOPPED:
                raise self._explain_death()
            os.waitid(os.P_PID, self.pid, os.WSTOPPED)  # take this notice: the next stop gives a new one
        except (ProcessLookupError, ChildProcessError) as error:
            raise self._explain_death() from error
        self._frozen = True

    def _explain_death(self) -> WarpsmithError:
        assert self._process is not None
        try:
            code = self._process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            code = 0
        self.close()
        return self._explain_exit(code)

    def _explain_exit(self, code: int) -> WarpsmithError:
        """`code` as subprocess has it: a negative one is a signal."""
        if code >= 0:
            return RunnerCrashed(f"the unit's process ended: {ENDINGS.get(code, f'exit code {code}')}")
        return RunnerCrashed(f"the unit crashed: {signal.Signals(-code).name}{SIGNAL_HINTS.get(-code, '')}")
