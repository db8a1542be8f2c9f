"""The supervisor's side of the candidate runner on CUDA: libraries of one unit, or in screening of one candidate, run on the GPU
by a confined process without torch.

In and out: as `runner.py`, whose arena in host memory stays the truth; the process copies it to the device
before a call and back after it, so that guards, poison and inputs are judged by the same bytes. What a call made is copied
to a values file, which the reference worker compares with the truth on the device. The native
side is `cuda_runner.cpp`. (CUDA IPC could save the copies; what is in force is said in `isolation`.) How far that process can be
confined depends on the driver, so it is tried: the
strictest level at which the GPU still works is taken, and `isolation` names it.
"""

from __future__ import annotations

import functools
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

from ...errors import JudgeError, WarpsmithError
from ...processes import bulk
from ...processes.buffers import ValuesFile
from ...processes.bulk import Bytes
from .arena import POISON
from .runner import ENDINGS, PASSED_ON, PICK, CandidateRunner, Loaded, NoRoom, RunnerCrashed, RunnerFailed
from .runner_program import cuda_runner_program

LANDLOCK, SECCOMP = 1, 2  # bits of a level
LEVELS = (LANDLOCK | SECCOMP, SECCOMP, LANDLOCK, 0)  # the strictest first
PROBE_SECONDS = 30.0
START_SECONDS = 20.0  # more than a command may take: a context is made
TEXT_BYTES = 160  # of an error, at the start of the arena
NO_DEVICE = 60  # an exit code
OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation
CUDA_PASSED_ON = (*PASSED_ON, "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES")
# No file is written for compiled PTX, and none is read: a unit holds code for this GPU.
ENVIRONMENT = MappingProxyType({"LC_ALL": "C", "CUDA_CACHE_DISABLE": "1"})

_FIRST = threading.Lock()  # of several threads, one builds the runner and finds its confinement


class CudaRunner(CandidateRunner):
    """See `CandidateRunner`. Each runner has a context of its own, so a fault ends with it. `threads` is not used.

    Raises JudgeError when there is no GPU that works."""

    passed_on = CUDA_PASSED_ON
    start_seconds = START_SECONDS
    _held: tuple[ValuesFile, ...] = ()  # what the last runs made, one for each pattern of poison

    def _default_program(self) -> Path:
        with _FIRST:
            program = cuda_runner_program(self.library.parent.parent, self._compiler)
            confinement(program, _visible())
        return program

    def _numbers(self, program: Path, threads: int) -> tuple[int, ...]:
        counts = self._arena.inputs, self._arena.outputs
        return (*counts, self._memory, os.getpid(), confinement(program, _visible()))

    def _list_others(self) -> Sequence[Loaded]:
        return self._all[1:]

    def pick(self, index: int) -> None:
        """In the same process: making a context takes longer than all that a unit does in it."""
        self._let_go()
        self._arena.close()
        self._now, self._placed = self._all[index], False
        try:
            workspace, _ = self._call(self._bare(PICK, count=index))
            self._make_room(workspace)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._let_go()
        super().close()

    def _let_go(self) -> None:
        for file in self._held:
            file.remove()
        self._held = ()

    def _copy_outputs(self, poison: int) -> tuple[list[Bytes], Path | None]:
        """Copy them to a file that the next run with this poison uses again: new memory takes longer to get than to fill."""
        if not self._held:
            self._held = tuple(
                ValuesFile(self._scratch.new("made"), self._now.outputs, create=True) for _ in POISON
            )
        file, first = self._held[poison], self._arena.inputs
        outputs = [file.raw(i) for i in range(self._arena.outputs)]
        for index, to in enumerate(outputs):
            bulk.copy(to, self._arena.view(first + index))
        return outputs, file.path

    def _variables(self, threads: int) -> dict[str, str]:
        return dict(ENVIRONMENT)

    def _level(self, landlock: int, seccomp: int) -> str:
        return f"device copies+{super()._level(landlock, seccomp)} (address space not limited)"

    def _explain_status(self, status: int) -> RunnerFailed:
        """Explain a CUDA error, which the process told in its last answer."""
        text = ""
        if self._arena.memory is not None:
            raw = self._arena.memory[:TEXT_BYTES].split(b"\0")[0].decode("ascii", "replace")
            text = "".join(c for c in raw if c.isprintable())
        self.close()
        if status == OUT_OF_MEMORY and not self._placed:
            size = f"{self._arena.size / 2**20:.0f} MiB"
            return NoRoom(f"no room on the GPU for two copies of the unit's buffers ({size})")
        return RunnerCrashed(f"the unit crashed: {text or 'an unnamed error'} (CUDA error {status})")

    def _explain_exit(self, code: int) -> WarpsmithError:
        if code == NO_DEVICE:
            return JudgeError("no CUDA device could be used: see `nvidia-smi`, or judge on the CPU")
        return super()._explain_exit(code)


def _visible() -> str:
    return os.environ.get("CUDA_VISIBLE_DEVICES", "")


@functools.cache
def confinement(program: Path, visible: str) -> int:
    """The strictest of `LEVELS` at which the runner can use the GPU; found by trying, once for a program and
    the GPUs that are visible. Raises JudgeError when it cannot at any."""
    tried = []
    for level in LEVELS:
        outcome = probe(program, level)
        if not outcome:
            return level
        tried.append(outcome)
    raise JudgeError(f"{tried[-1]}: see `nvidia-smi`, or judge on the CPU")


def probe(program: Path, level: int) -> str:
    """Empty when the runner can use the GPU at this level; else why not."""
    env = {k: os.environ[k] for k in CUDA_PASSED_ON if k in os.environ} | ENVIRONMENT
    quiet = subprocess.DEVNULL
    try:
        done = subprocess.run(
            [str(program), str(level)], env=env, cwd="/", start_new_session=True, timeout=PROBE_SECONDS,
            stdin=quiet, stdout=quiet, stderr=quiet, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the candidate runner does not run: {error}"
    if done.returncode < 0:
        return f"signal {-done.returncode}"
    return ENDINGS.get(done.returncode, f"exit code {done.returncode}") if done.returncode else ""
