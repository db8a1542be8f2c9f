"""The supervisor's end of the processes that run a solution.

In: a solution's text and its folders. Out: processes that are spoken to like any timed process. No torch here.
Each request carries a token that the answer must repeat, and no answer may lie in the pipe before a request is
sent: what the solution's own code writes to the pipe is noticed (`Forged`), not believed.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from ..errors import WarpsmithError
from ..judge.layout import Rows
from ..judge.timing.timed_process import Block, ForkedWorker, TimedProcess, environment
from ..processes.buffers import Scratch
from ..processes.readable import SYSTEM, python_folders, tool_folders
from ..processes.waiting import is_readable
from ..processes.worker import Worker
from .sampler import name_samples

MODULE = "warpsmith.solutions.zygote"
OPEN_SECONDS = 120.0
LOAD_SECONDS = (
    600.0  # an extension that includes torch's headers takes half a minute to compile on a fast machine
)
RUN_SECONDS = 120.0  # a call, and with it what compiles at the first call


class Forged(WarpsmithError):
    """An answer that the judge's own code in that process did not write."""


class TokenWorker(ForkedWorker):
    def call(self, op: str, timeout: float = 60.0, **fields: Any) -> dict[str, Any]:
        if self._buffer or is_readable(self._answer):
            self._expect_silence()
        token = secrets.token_hex(8)
        answer = super().call(op, timeout, token=token, **fields)
        if answer.pop("token", "") != token:
            self.close()
            raise Forged("the process sent an answer that the judge's code there did not write")
        return answer

    def _expect_silence(self) -> None:
        """Bytes before any request; an ended process also reads so, which the next request finds out."""
        if self._buffer or os.read(self._answer, 1):
            self.close()
            raise Forged("the process sent an answer to no request")


class SolutionProcess(TimedProcess):
    """Values come to it through a folder that it may read and not write; what it wrote is copied before
    anybody trusts its length, or that it is a file. `keep` makes paths that it cannot reach."""

    def __init__(self, worker: ForkedWorker, folder: Path, given: Path, keep: Callable[[], Path]) -> None:
        super().__init__("solution", worker, folder)
        self.given, self.keep = given, keep
        self.other_strides = self._is_alone = False

    def prepare(self, values: Path, warmup: int, timeout: float = RUN_SECONDS, alone: bool = True) -> float:
        return super().prepare(self._hand(values), warmup, timeout, alone)

    def block(self, n: int, evictions: int, seed: int, fresh: bool = True) -> Block:
        """Time calls as the base does, in a process that is alone. What it needed to start has been started by now: what
        computes in another process is on nobody's clock.
        """
        if not self._is_alone:
            self.worker.call("deny_processes", 60.0)
            assert isinstance(self.worker, ForkedWorker)
            self.worker.zygote.call("end_started", 60.0, pid=self.pid)
            self._is_alone = True
        return super().block(n, evictions, seed, fresh)

    def run(self, values: Path, strided: bool = False) -> Path:
        """One call; returns a values file of its outputs. See `call`."""
        self.call(values, strided)
        return self.collect()

    def call(self, values: Path, strided: bool = False, wait: bool = True) -> None:
        """One call. `strided`: inputs are views that are not contiguous; `wait`: `collect` gives it time to be changed. Raises
        WorkerFailed with what it raised.
        """
        answer = self.worker.call(
            "run", RUN_SECONDS, values=str(self._hand(values)), strided=strided, wait=wait
        )
        self.other_strides |= answer.get("other_strides") is True

    def collect(self) -> Path:
        """Return a values file of what the last call returned. Raises WorkerFailed with the rule that its outputs broke."""
        return self.outputs(self.folder / f"outputs-{secrets.token_hex(4)}")

    def outputs(self, path: Path, rows: Sequence[Rows] = ()) -> Path:
        return self._collect(super().outputs(path, rows))

    def _collect(self, path: Path) -> Path:
        """A copy of a file of theirs. A link would have us read what they may not: Forged."""
        pages = self.keep()
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(fd, "rb") as source, pages.open("wb") as target:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise OSError("not a file")
                shutil.copyfileobj(source, target, 1 << 22)
            path.unlink()
        except OSError as error:
            self.close()
            raise Forged(f"the file of its outputs is none: {error.strerror or error}") from error
        return pages

    def takes_strided(self, values: Path) -> bool:
        """Return whether one call takes inputs that are not contiguous."""
        answer = self.worker.call("takes_strided", RUN_SECONDS, values=str(self._hand(values)))
        return answer.get("takes") is True

    def trace(self, values: Path) -> dict[str, Any]:
        """Return what one call runs, and by object where repeated calls spend their time (`samples`)."""
        answer = self.worker.call("trace", RUN_SECONDS, values=str(self._hand(values)))
        pages = {str(k): int(v) for k, v in dict(answer.get("sampled") or {}).items()}
        answer["samples"] = name_samples(pages, self._read_maps(), self.folder.parent)
        return answer

    def list_mapped_objects(self, folder: Path) -> list[str]:
        """Executable files of a folder that are mapped into the process now, by their path in it; as the kernel
        says. Also executable memory files, which have no folder."""
        paths = set()
        for line in self._read_maps().splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and "x" in fields[1]:
                path = fields[5].removesuffix(" (deleted)")
                if path.startswith(f"{folder}/"):
                    paths.add(path.removeprefix(f"{folder}/"))
                elif path.startswith("/memfd:"):
                    paths.add(path.lstrip("/"))
        return sorted(paths)

    def _read_maps(self) -> str:
        return Path(f"/proc/{self.pid}/maps").read_text()

    def _hand(self, values: Path) -> Path:
        """The same file under another name (a link: no copy), in the folder that may be read."""
        values_path = self.given / values.name
        if not values_path.exists():
            os.link(values, values_path)
        return values_path


class Starter:
    """A context manager: the process that solutions are forked from, and its folders.

    `scratch`: where the values lie; they are handed over in a folder of it. `root`: on a disk, since libraries
    that are built there must be loadable, which shared memory often forbids.
    """

    def __init__(
        self, graphs: Path, root: Path, scratch: Scratch, *, threads: int, flush_bytes: int, device: str,
        sampler: Path | None = None,
    ) -> None:  # fmt: skip
        self.root, self.scratch, self.threads = root, scratch, threads
        self.given = values_folder = scratch.new("given")
        values_folder.mkdir()
        passed_on = {k: v for k, v in os.environ.items() if k.startswith(PASSED_ON)}
        self._zygote = Worker(
            MODULE, root / "zygote", env={**passed_on, **environment(threads)}, inherit=False
        )
        readable = [*SYSTEM, *python_folders(), *tool_folders(), str(values_folder)]
        self._zygote.send(
            "open", graphs=str(graphs), readable=readable, flush_bytes=flush_bytes, device=device,
            sampler=None if sampler is None else str(sampler),
        )  # fmt: skip
        self._ready = False
        self._count = 0

    def fork(self, folder: Path) -> SolutionProcess:
        """A confined process; `folder` is the solution's: `build` in it is kept between its processes."""
        if not self._ready:
            self._zygote.receive(OPEN_SECONDS)
            self._ready = True
        (folder / "build").mkdir(parents=True, exist_ok=True)
        self._count += 1
        process_folder = folder / f"process-{self._count}"
        process_folder.mkdir()
        memory = int(psutil.virtual_memory().available * 0.9)
        worker = TokenWorker(self._zygote, process_folder, self.threads, memory)
        return SolutionProcess(worker, process_folder, self.given, lambda: self.scratch.new("outputs"))

    def empty(self) -> None:
        """Take back the values that were handed over."""
        for path in self.given.iterdir():
            path.unlink(missing_ok=True)

    def close(self) -> None:
        self._zygote.close()

    def __enter__(self) -> Starter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# Beginnings of the names of variables that a solution is given: what finds compilers, libraries and devices. The
# rest would tell it who is looking, and holds the user's keys.
PASSED_ON = (
    "PATH", "HOME", "LANG", "LC_", "LD_LIBRARY_PATH", "PYTHONPATH", "CUDA_", "CUDACXX", "CXX", "CC", "OMP_", "GOMP_", "TORCH_",
    "TRITON_", "MAX_JOBS",
)  # fmt: skip
