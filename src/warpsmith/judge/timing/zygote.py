"""A torch process that forks one child for each candidate, so that a candidate starts in milliseconds instead
of a torch import.

In (requests): `open` a graph, `fork` a child that serves `load` (deploy the candidate's libraries),
`prepare`, `time` and `outputs` over a pair of named pipes, `reap` an ended child. The zygote itself runs
trusted code only and stays single-threaded: an OpenMP pool does not survive a fork. Nor does a CUDA context,
so the zygote never touches CUDA, and each child makes its own. A child leaves the session, confines itself
and only then loads the candidate's libraries.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import JudgeError
from ...processes.worker import serve
from ...records import Graph, Region
from ...runtime.deployed import deploy
from .cuda_clock import confine, make_stopwatch
from .stopwatch import (
    Block,
    Callee,
    Stopwatch,
    arrange,
    flush_buffer,
    map_updated_inputs,
    output_blocks,
    steady_state,
)

PROBE_SECONDS = 60  # that a confined process has to make a CUDA context


class Deployed:
    """A candidate: the task's graph with regions replaced by libraries."""

    def __init__(self, graph: Graph, parts: list[dict[str, Any]], device: str = "cpu") -> None:
        self.graph = graph
        regions = [(Region.model_validate(p["region"]), Path(p["library"])) for p in parts]
        self.run = deploy(graph, regions, device)
        self.updated = map_updated_inputs(graph)
        self.blocks = [block for region, path in regions for block in self._blocks(region, path)]
        self.made = {name for region, _ in regions for name in region.outputs}
        self.blocks += output_blocks(graph, (name for name in graph.returned if name not in self.made))

    def _blocks(self, region: Region, library: Path) -> list[Block]:
        """List what the run allocates for a unit: its outputs, then its workspace."""
        workspace = ctypes.CDLL(str(library)).warpsmith_workspace_bytes
        workspace.restype = ctypes.c_size_t
        return [*output_blocks(self.graph, region.outputs), (int(workspace()), False)]

    def bind(self, values: Sequence[Tensor]) -> None:
        self.values = list(values)

    def rest(self, values: Sequence[Tensor]) -> None:
        self.bind(values)

    def reset(self, values: Sequence[Tensor]) -> None:
        for index in self.updated.values():
            self.values[index].copy_(values[index])

    def call(self) -> Any:
        return self.run(self.values)

    def leaves(self, result: Any) -> list[Tensor]:
        """Outputs come back from the call; updates were written to the given tensors."""
        returned = iter([leaf for leaf in result if isinstance(leaf, Tensor)])
        return arrange(
            self.graph, returned, lambda output: self.values[self.updated[output.role, output.target]]
        )

    def find_owned(self, result: Any) -> list[Tensor]:
        """Return the outputs of units: what ATen made may be a view of an input."""
        names = [o.value for o in self.graph.outputs if o.role == "output"]
        return [leaf for name, leaf in zip(names, result, strict=True) if name in self.made]


class Zygote:
    """The handlers of the zygote."""

    context_first = False  # whether children make their CUDA context before they are confined

    def open(self, graph_file: str, flush_bytes: int, device: str = "cpu") -> None:
        torch.set_num_threads(1)
        self.graph = Graph.model_validate_json(Path(graph_file).read_text())
        self.device, self.flush_bytes = device, flush_bytes
        # Shared with the children: they only read it. On CUDA each has its own.
        self.flush = flush_buffer(flush_bytes) if device == "cpu" else None
        self._warm_up()
        if device == "cuda":
            self.context_first = not starts_confined(
                lambda: confine("cuda", [Path.cwd()], None, new_processes=False)
            )
        if len(os.listdir("/proc/self/task")) > 1:
            raise RuntimeError("the zygote started a thread: its children could not start their own")

    def _warm_up(self) -> None:
        """Touch what every child needs once (operator lookup, record schemas), single-threaded."""
        torch.frombuffer(bytearray(64), dtype=torch.float32).clone()
        Region.model_validate({"nodes": ["a"], "inputs": [], "outputs": [], "signature": ""})

    def fork(
        self, request: str, answer: str, folder: str, threads: int, memory_bytes: int | None
    ) -> dict[str, Any]:
        """Start a child that answers on the two pipes; the caller holds their other ends. Returns its pid."""
        request_fd = os.open(request, os.O_RDONLY)
        answer_fd = os.open(answer, os.O_WRONLY)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                detach(request_fd, answer_fd, parent, Path(folder))
                self.become(Path(folder), threads, memory_bytes)
            finally:
                os._exit(1)
        os.close(request_fd)
        os.close(answer_fd)
        return {"pid": pid}

    def become(self, folder: Path, threads: int, memory_bytes: int | None) -> None:
        """In the fork: confine it, then answer requests until the pipe closes."""
        level = confine(
            self.device, [folder], memory_bytes, context_first=self.context_first, new_processes=False
        )
        serve(Child(self, level, threads).handlers())

    def make_stopwatch(self, graph: Graph, callee: Callee, blocks: Sequence[Block]) -> Stopwatch:
        """In a child: the stopwatch of this zygote's device."""
        if self.device == "cpu":
            return Stopwatch(graph, callee, self.flush, blocks)
        return make_stopwatch(self.device, graph, callee, self.flush_bytes, blocks)

    def reap(self, pid: int) -> dict[str, Any]:
        """Collect a killed child. Returns its exit code, negative for a signal."""
        return {"code": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}

    def handlers(self) -> dict[str, Any]:
        return {"open": self.open, "fork": self.fork, "reap": self.reap}


def starts_confined(confine: Callable[[], object]) -> bool:
    """Try whether a confined child can make a CUDA context: one does, and the zygote's log says why not."""
    pid = os.fork()
    if pid == 0:
        code = 1
        signal.alarm(PROBE_SECONDS)
        try:
            confine()
            code = 0
        except JudgeError as error:
            print(f"confined, {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def detach(request_fd: int, answer_fd: int, parent: int, folder: Path) -> None:
    """Make a fresh fork a worker of its own, which answers on the two pipes."""
    os.setsid()
    for fd in sys.argv[1:3]:  # the zygote's own pipes
        os.close(int(fd))
    log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(folder)
    random.seed()
    sys.argv[1:4] = [str(request_fd), str(answer_fd), str(parent)]


class Child:
    """The handlers of a candidate's process."""

    stopwatch: Stopwatch

    def __init__(self, zygote: Zygote, level: str, threads: int) -> None:
        self.zygote, self.level, self.threads = zygote, level, threads

    def load(self, parts: list[dict[str, Any]], graph_file: str = "") -> dict[str, Any]:
        """`graph_file`: a graph of the candidate's own, with the inputs and outputs of the zygote's."""
        graph = Graph.model_validate_json(Path(graph_file).read_text()) if graph_file else self.zygote.graph
        steady_state(self.threads)
        deployed = Deployed(graph, parts, self.zygote.device)
        self.stopwatch = self.zygote.make_stopwatch(graph, deployed, deployed.blocks)
        return {"isolation": self.level}

    def outputs(self, path: str, rows: Sequence[tuple[int, int]] = ()) -> None:
        """Raises RuntimeError when the last call wrote to an input."""
        if name := self.stopwatch.spoilt_input():
            raise RuntimeError(f"it changed the input {name}")
        self.stopwatch.outputs(path, rows)

    def handlers(self) -> dict[str, Any]:
        return {
            "load": self.load,
            "prepare": lambda **fields: self.stopwatch.prepare(**fields),
            "again": lambda **fields: self.stopwatch.again(**fields),
            "time": lambda **fields: self.stopwatch.time(**fields),
            "outputs": self.outputs,
            "rest": lambda: self.stopwatch.rest(),
        }


if __name__ == "__main__":
    serve(Zygote().handlers())
