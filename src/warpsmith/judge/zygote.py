"""A torch process that forks one child for each candidate, so that a candidate starts in milliseconds instead
of a torch import.

In (requests): `open` a graph, `fork` a child that serves `load` (deploy the candidate's libraries),
`prepare`, `time` and `outputs` over a pair of named pipes, `reap` an ended child. The zygote itself runs
trusted code only and stays single-threaded: an OpenMP pool does not survive a fork. A child leaves the
session, confines itself and only then loads the candidate's libraries.
"""

from __future__ import annotations

import ctypes
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..processes.sandbox import restrict
from ..processes.worker import serve
from ..records import Graph, Region
from ..runtime.deployed import deploy
from .bench_worker import (
    Block,
    Stopwatch,
    arrange,
    flush_buffer,
    output_blocks,
    steady_state,
    updated_inputs,
)


class Deployed:
    """A candidate: the task's graph with regions replaced by libraries."""

    def __init__(self, graph: Graph, parts: list[dict[str, Any]]) -> None:
        self.graph = graph
        regions = [(Region.model_validate(p["region"]), Path(p["library"])) for p in parts]
        self.run = deploy(graph, regions)
        self.updated = updated_inputs(graph)
        self.blocks = [block for region, path in regions for block in self._blocks(region, path)]
        made = {name for region, _ in regions for name in region.outputs}
        self.blocks += output_blocks(graph, (name for name in graph.returned if name not in made))

    def _blocks(self, region: Region, library: Path) -> list[Block]:
        """What the run allocates for a unit: its outputs, then its workspace."""
        workspace = ctypes.CDLL(str(library)).warpsmith_workspace_bytes
        workspace.restype = ctypes.c_size_t
        return [*output_blocks(self.graph, region.outputs), (int(workspace()), False)]

    def bind(self, values: Sequence[Tensor]) -> None:
        self.values = list(values)

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


class Zygote:
    """The handlers of the zygote."""

    def open(self, graph_file: str, flush_bytes: int) -> None:
        torch.set_num_threads(1)
        self.graph = Graph.model_validate_json(Path(graph_file).read_text())
        self.flush = flush_buffer(flush_bytes)  # shared with the children: they only read it
        self._warm_up()
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
                _child(self, request_fd, answer_fd, parent, Path(folder), threads, memory_bytes)
            finally:
                os._exit(1)
        os.close(request_fd)
        os.close(answer_fd)
        return {"pid": pid}

    def reap(self, pid: int) -> dict[str, Any]:
        """Collect a killed child. Returns its exit code, negative for a signal."""
        return {"code": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}

    def handlers(self) -> dict[str, Any]:
        return {"open": self.open, "fork": self.fork, "reap": self.reap}


def _child(
    zygote: Zygote,
    request_fd: int,
    answer_fd: int,
    parent: int,
    folder: Path,
    threads: int,
    memory_bytes: int | None,
) -> None:
    os.setsid()
    for fd in sys.argv[1:3]:  # the zygote's own pipes
        os.close(int(fd))
    log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(folder)
    random.seed()
    sys.argv[1:4] = [str(request_fd), str(answer_fd), str(parent)]
    level = restrict([folder], memory_bytes=memory_bytes, network=False, new_processes=False)
    serve(Child(zygote, level, threads).handlers())


class Child:
    """The handlers of a candidate's process."""

    stopwatch: Stopwatch

    def __init__(self, zygote: Zygote, level: str, threads: int) -> None:
        self.zygote, self.level, self.threads = zygote, level, threads

    def load(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        steady_state(self.threads)
        graph = self.zygote.graph
        deployed = Deployed(graph, parts)
        self.stopwatch = Stopwatch(graph, deployed, self.zygote.flush, deployed.blocks)
        return {"isolation": self.level}

    def outputs(self, path: str) -> None:
        """Raises RuntimeError when the last call wrote to an input."""
        if name := self.stopwatch.spoilt_input():
            raise RuntimeError(f"it changed the input {name}")
        self.stopwatch.outputs(path)

    def handlers(self) -> dict[str, Any]:
        return {
            "load": self.load,
            "prepare": lambda **fields: self.stopwatch.prepare(**fields),
            "time": lambda **fields: self.stopwatch.time(**fields),
            "outputs": self.outputs,
        }


if __name__ == "__main__":
    serve(Zygote().handlers())
