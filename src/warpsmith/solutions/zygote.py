"""A torch process that forks one child for each run of a solution.

In (requests): `open` the graphs of a task's variants, `fork` a child (see `judge.timing.zygote`). The child confines
itself before it sees the solution: it may write to its own folder and its solution's build folder, read the
system, Python and the values that it is given, and reach no network. It then serves `load`, `run` (one call
whose outputs are written as they are when it returns), `prepare`, `time` and `outputs` (the judge's stopwatch),
and `trace`. Every answer carries the request's token, so that one which the solution's code has written itself
is not taken for one.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import random
import sys
import time as clock
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import Tensor

from ..judge.timing import heap
from ..judge.timing.bench_worker import Reference
from ..judge.timing.cuda_clock import CudaStopwatch, flush_for, start_cuda
from ..judge.timing.stopwatch import Stopwatch, Tampered, as_bytes, flush_buffer, output_blocks, steady_state
from ..judge.timing.zygote import Zygote, starts_confined
from ..machine import device_files
from ..processes.buffers import extent_bytes
from ..processes.readable import python_folders
from ..processes.sandbox import deny_processes, restrict
from ..processes.worker import serve
from ..records import Graph, Task
from ..tasks.values import write_tensors
from . import hosted
from .frames import guard
from .hosted import OutputRefused, Solution, stride_inputs
from .integrity import Seal, read_caught_signals
from .sampler import Sampler
from .settings import find_changed, read_settings
from .tracing import Recorder, trace

PIECES, PIECE_BYTES = 64, 64 << 10  # of an output, copied in an order that nobody can foresee
PR_SET_CHILD_SUBREAPER = 36
LATE_SECONDS = 0.03  # a result that is still being written changes within this time


class Watch(Stopwatch):
    """The judge's stopwatch; outputs are copied when the last call returns, and must not change after it."""

    known_signals: int  # handled before the solution's code ran, a bit each

    def __init__(
        self,
        graph: Graph,
        callee: Any,
        flush: Tensor | None,
        check_seal: Callable[[bool], None] = lambda first: None,
    ) -> None:
        super().__init__(graph, callee, flush, output_blocks(graph, graph.returned))
        self._check_seal = check_seal  # before a result is looked at: what is patched then could compute it
        self.specs = [graph.specs[o.value] for o in graph.outputs if o.value is not None]
        sizes = [extent_bytes(s) for s in self.specs]
        self.taken = [torch.empty(n, dtype=torch.uint8, device=self.device) for n in sizes]
        self._taken = 0.0  # when, by the monotonic clock; long ago: nobody waits for what is still written

    def run(self, values: str, strided: bool = False, wait: bool = True) -> None:
        """One call on the values of a file, in recycled memory that holds NaN. `strided`: inputs as views that are not contiguous;
        `wait`: `outputs` is to wait for what is still written."""
        self.prepare(values, 0, alone=False)
        if strided:
            stride_inputs(self.callee)
        self._overwrite()
        with torch.no_grad():
            self.result = self.callee.call()
            self._finish()
            self._check_seal(True)
            self.take()
        if not wait:
            self._taken = 0.0

    def take_sealed(self) -> None:
        """Copy what the last timed call returned, if the judge's own code is what it was. Raises OutputRefused."""
        self._check_seal(True)
        with torch.no_grad():
            self.take()
        self._check_seal(False)

    def _look_after_call(self) -> None:
        """Raise Tampered for a signal handler: it runs before the clock, or after it, whenever a timer says."""
        if signals := read_caught_signals() & ~self.known_signals:
            raise Tampered(
                f"tampered: it handles signal {signals.bit_length()}, whose handler runs off the clock"
            )

    def take(self) -> None:
        """Copy the outputs as they are now, piece by piece in random order: a thread that is still writing
        them cannot keep ahead."""
        for copy, leaf in zip(self.taken, self.callee.leaves(self.result), strict=True):
            current = as_bytes(leaf)
            size = max(PIECE_BYTES, -(-copy.numel() // PIECES))
            starts = list(range(0, copy.numel(), size))
            random.shuffle(starts)
            for start in starts:
                copy[start : start + size].copy_(current[start : start + size])
        self._finish()
        self._taken = clock.monotonic()

    def outputs(self, path: str, rows: Sequence[tuple[int, int]] = ()) -> None:
        """Write what the last call had returned, all of it. Raises OutputRefused."""
        if rows:
            raise ValueError("all rows of a solution's outputs are looked at")
        if self.result is None:
            raise RuntimeError("no call yet")
        if name := self.spoilt_input():
            raise OutputRefused(f"input-mutated: the input {name} was changed")
        clock.sleep(max(0.0, self._taken + LATE_SECONDS - clock.monotonic()))
        leaves = self.callee.leaves(self.result)
        for number, (copy, leaf) in enumerate(zip(self.taken, leaves, strict=True)):
            if not torch.equal(copy, as_bytes(leaf)):
                raise OutputRefused(
                    f"output-late: output {number} was still written to after the call returned"
                )
        tensors = [_cast(copy, leaf) for copy, leaf in zip(self.taken, leaves, strict=True)]
        write_tensors(Path(path), self.specs, tensors)


class CudaWatch(Watch, CudaStopwatch):
    """The same on the GPU's clock."""


class SolutionZygote(Zygote):
    """`graph` of the base is not used: each child is told its variant."""

    def open_all(
        self, graphs: str, readable: list[str], flush_bytes: int, device: str, sampler: str | None = None
    ) -> None:
        torch.set_num_threads(1)
        named = json.loads(Path(graphs).read_text())
        self.graphs = {name: Graph.model_validate(graph) for name, graph in named.items()}
        self.sampler = Sampler(Path(sampler)) if sampler is not None else None
        self.readable, self.device = [Path(p) for p in readable], device
        self.trusted = python_folders()
        self.flush_bytes = flush_bytes
        self.flush = flush_buffer(flush_bytes) if device == "cpu" else None  # as in the base
        self.live: set[int] = set()
        with Recorder():
            torch.ones(8).cumsum(0)  # loads what tracing needs, once for all children
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._warm_up()
        self.seal = Seal(
            hosted, Solution, Watch, Stopwatch, CudaStopwatch, SolutionZygote, Child, take=Watch.take
        )
        if device == "cuda":
            self.context_first = not starts_confined(lambda: self._confine([Path.cwd()], Path.cwd(), None))
        if len(os.listdir("/proc/self/task")) > 1:
            raise RuntimeError("the process started a thread: its children could not start their own")
        gc.collect()
        gc.freeze()  # or each child's first collection goes through all that is imported, for a fifth of a second

    def make_watch(self, graph: Graph, callee: Any, check_seal: Callable[[bool], None]) -> Watch:
        """In a child: as `make_stopwatch`."""
        if self.device == "cpu":
            return Watch(graph, callee, self.flush, check_seal)
        return CudaWatch(graph, callee, flush_for(self.device, self.flush_bytes), check_seal)

    def fork(self, *args: Any, **fields: Any) -> dict[str, Any]:
        answer = super().fork(*args, **fields)
        self.live.add(answer["pid"])
        return answer

    def reap(self, pid: int) -> dict[str, Any]:
        """Collect a killed child, and kill what it had started."""
        answer = super().reap(pid)
        self.live.discard(pid)
        self._end_orphans()
        return answer

    def end_started(self, pid: int) -> dict[str, Any]:
        """Kill what a child has started, children of theirs too. Returns how many these were."""
        started = psutil.Process(pid).children(recursive=True)
        for process in started:
            process.kill()
        return {"ended": len(started) + self._end_orphans()}

    def _end_orphans(self) -> int:
        """Kill what was left behind by who started it, wherever that moved itself: orphans come to this process."""
        count = 0
        while remaining := [c for c in psutil.Process().children() if c.pid not in self.live]:
            for orphan in remaining:
                orphan.kill()
                orphan.wait()
                count += 1
        return count

    def become(self, folder: Path, threads: int, memory_bytes: int | None) -> None:
        build = folder.parent / "build"
        environment = {
            "TORCH_EXTENSIONS_DIR": build / "extensions", "TORCHINDUCTOR_CACHE_DIR": build / "inductor",
            "TRITON_CACHE_DIR": build / "triton", "CUDA_CACHE_PATH": build / "cuda", "HOME": build,
            "XDG_CACHE_HOME": build / "cache", "MAX_JOBS": "2", "TORCHINDUCTOR_COMPILE_THREADS": "1",
        }  # fmt: skip
        os.environ.update({name: str(value) for name, value in environment.items()})
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        serve(Child(self, self._confine([build, folder], folder.parent, memory_bytes), threads).handlers())

    def _confine(self, writable: list[Path], readable: Path, memory_bytes: int | None) -> str:
        """Returns the level in force. On CUDA the context is made here, before it where it must be."""
        cuda = self.device == "cuda"
        if cuda and self.context_first:
            start_cuda()
        level = restrict(
            [*writable, *(device_files() if cuda else ())], network=False,
            memory_bytes=None if cuda else memory_bytes, readable=[*self.readable, readable],
        )  # fmt: skip
        if cuda:
            start_cuda()
        return level + (", memory not limited (CUDA)" if cuda else "")

    def handlers(self) -> dict[str, Any]:
        return {"open": self.open_all, "fork": self.fork, "reap": self.reap, "end_started": self.end_started}


class Child:
    """The handlers of one solution's process."""

    watch: Watch

    def __init__(self, zygote: SolutionZygote, level: str, threads: int) -> None:
        self.zygote, self.level, self.threads = zygote, level, threads
        self.peeked: Callable[[], str] = str
        self.known_signals = read_caught_signals()
        self.settings: dict[str, Any] = {}  # torch's, once a solution is loaded
        self.sampler = zygote.sampler

    def load(
        self, text: str, name: str, variant: str, overrides: dict[str, Any], init: dict[str, Any], seed: int,
        copy: bool,
    ) -> dict[str, Any]:  # fmt: skip
        """Run the file and construct the module. Returns what it lacks of the reference's state."""
        graph = self.zygote.graphs[variant]
        self.peeked = guard(self.zygote.trusted)
        module = hosted.build(text, name, overrides, init, seed)
        solution = Solution(graph, module, copy=copy, device=self.zygote.device)
        self._ready(graph, solution)
        self.settings = read_settings()
        return {"isolation": self.level, "unnamed": solution.list_unnamed(), "absent": solution.absent}

    def load_reference(self, task_file: str, variant: str) -> dict[str, Any]:
        """The task's own module in its place, in a process that no solution enters."""
        task = Task.model_validate_json(Path(task_file).read_text())
        self.sampler = None  # nobody asks where its time goes
        self._ready(task.variant(variant).graph, Reference(task, variant, "eager", self.zygote.device))
        return {}

    def _ready(self, graph: Graph, callee: Any) -> None:
        self.watch = self.zygote.make_watch(graph, callee, self._expect_seal)
        self.watch.known_signals = self.known_signals
        self._expect_seal()
        steady_state(self.threads)

    def run(self, values: str, strided: bool = False, wait: bool = True) -> dict[str, Any]:
        self.watch.run(values, strided, wait)
        self._expect_seal()
        return {"other_strides": getattr(self.watch.callee, "other_strides", False)}

    def takes_strided(self, values: str) -> dict[str, Any]:
        """For the reference: whether it takes views of its inputs that are not contiguous, which it must not write to."""
        callee: Any = self.watch.callee
        if any(o.role == "input_update" for o in callee.graph.outputs):
            return {"takes": False}
        self.watch.prepare(values, 0, alone=False)
        strided = stride_inputs(callee.hosted)
        try:
            with torch.no_grad():
                callee.call()
        except Exception:  # noqa: BLE001 - the user's code, which may refuse them in any way
            return {"takes": False}
        return {"takes": strided}

    def trace(self, values: str) -> dict[str, Any]:
        self.watch.prepare(values, 1, alone=False)
        return trace(self.watch.callee.call, self.watch.private, self.zygote.device == "cuda", self.sampler)

    def time(self, **fields: Any) -> dict[str, Any]:
        answer = self.watch.time(**fields)
        return {**answer, "after": self.watch.take_sealed} if fields.get("fresh") else answer

    def prepare(self, **fields: Any) -> dict[str, Any]:
        self._expect_seal()  # here too: a clock check has no time for it
        return self._copyable(self.watch.prepare(**fields))

    def again(self, **fields: Any) -> dict[str, Any]:
        return self._copyable(self.watch.again(**fields))

    def _copyable(self, answer: dict[str, Any]) -> dict[str, Any]:
        """The answer: what came back of the warm-up must be what can be copied, before any block is timed."""
        if self.watch.result is not None:
            self.watch.callee.leaves(self.watch.result)
        return answer

    def _expect_seal(self, first: bool = False) -> None:
        """`first`: only of what copies the outputs. Raises Tampered."""
        self._expect_unpeeked()
        seal = self.zygote.seal
        broken = seal.find_broken_first() if first else seal.find_broken()
        broken = broken or next((f"Watch.{n}" for n in vars(self.watch) if n in dir(Watch)), "")
        if broken:
            raise Tampered(f"tampered: {broken} was replaced, which the measurement relies on")
        if not first and (changed := find_changed(self.settings)):
            raise Tampered(
                f"tampered: a call changed torch's setting {changed}, which all else in the process computes with: "
                "restore it, or set it when the module is constructed"
            )

    def _expect_unpeeked(self) -> None:
        """Raises Tampered."""
        if peeked := self.peeked():
            raise Tampered(f"tampered: it asked for the judge's frames or objects ({peeked})")

    def handlers(self) -> dict[str, Callable[..., dict[str, Any]]]:
        served: Sequence[tuple[str, Callable[..., dict[str, Any] | None]]] = (
            ("deny_processes", lambda: {"denied": deny_processes()}), ("load", self.load), ("load_reference", self.load_reference), ("run", self.run), ("trace", self.trace), ("takes_strided", self.takes_strided),
            ("time", self.time), ("prepare", self.prepare), ("again", self.again), ("outputs", lambda path: self.watch.outputs(path)),
        )  # fmt: skip
        return {name: self._with_token(handler) for name, handler in served}

    def _with_token(self, handler: Callable[..., dict[str, Any] | None]) -> Callable[..., dict[str, Any]]:
        def answer(token: str, **fields: Any) -> dict[str, Any]:
            try:
                reply = handler(**fields)
            except (Exception, SystemExit):
                self._expect_unpeeked()  # says more than the error that the refusal led to
                raise
            return {**(reply or {}), "token": token}

        return answer


def _cast(copy: Tensor, like: Tensor) -> Tensor:
    if like.numel() == 0:
        return like.detach().cpu()
    return copy.view(like.dtype).as_strided(like.shape, like.stride())


if __name__ == "__main__":
    heap.at_rest()
    serve(SolutionZygote().handlers())
