"""Untrusted process that times one callable as deployed: the user's module in eager mode, under
torch.compile, or as a CUDA graph.

In (requests, see `processes.worker`): `load` a task's module, `prepare` it with the tensors of a values file,
`time` n calls, write the `outputs` of the last timed call to a file. Out: raw nanoseconds. The timing routine
is `judge/timing/stopwatch.py`, shared with the candidates' processes (`judge/timing/zygote.py`).
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import Tensor

from ...processes.worker import serve
from ...records import Task
from ...tasks.hosted import find_tensor, load_reference, tensors_to_buffers
from ..device.tf32 import read_tf32, set_tf32
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

MODES = {
    "compile": "default",
    "compile-max-autotune": "max-autotune",
    "compile-reduce-overhead": "reduce-overhead",
}
CUDA_MODES = {**MODES, "compile-max-autotune": "max-autotune-no-cudagraphs"}
GRAPH_WARMUP = 3  # calls before a capture, which may not allocate workspaces or choose algorithms


class Reference:
    """The user's own module, possibly compiled, on a device."""

    def __init__(self, task: Task, variant: str, kind: str, device: str = "cpu") -> None:
        chosen = task.variant(variant)
        self.graph = chosen.graph
        self.hosted = load_reference(task.source, chosen.overrides, device)
        module = self.hosted.module
        if device != "cpu":
            tensors_to_buffers(module)  # what is no buffer stays behind
            module.to(device)
        if kind == "channels-last":
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        modes = MODES if device == "cpu" else CUDA_MODES
        mode = modes.get(kind)
        self.run: Callable[..., Any] = module if mode is None else torch.compile(module, mode=mode)
        self.updated = map_updated_inputs(self.graph)
        self.renews = self.hosted.renews(self.graph)

    def bind(self, values: Sequence[Tensor]) -> None:
        self.values = list(values)
        self.hosted.bind(self.graph, self.values)

    def rest(self, values: Sequence[Tensor]) -> None:
        Reference.bind(self, values)

    def reset(self, values: Sequence[Tensor]) -> None:
        for index in self.updated.values():
            self._place(index).copy_(values[index])
        if self.renews:
            self.hosted.renew()

    def _place(self, index: int) -> Tensor:
        """Find the tensor that the module itself reads, and writes, for an input of the graph."""
        item = self.graph.inputs[index]
        tensor = None if item.role == "input" else find_tensor(self.hosted.module, item.target)
        return self.values[index] if tensor is None else tensor

    def call(self) -> Any:
        return self.run(*self.hosted.args, **self.hosted.kwargs)

    def leaves(self, result: Any) -> list[Tensor]:
        returned = iter(self.hosted.results(self.graph, result))
        return arrange(
            self.graph, returned, lambda output: self._place(self.updated[output.role, output.target])
        )

    def find_owned(self, result: Any) -> list[Tensor]:
        """None: whose memory a module returns is not known."""
        return []


class CudaGraph(Reference):
    """The user's module in eager mode, captured as a CUDA graph on the very tensors of a block's calls: the
    most that a graph can give, since inputs at other addresses would have to be copied in.
    """

    graphed: torch.cuda.CUDAGraph | None = None
    result: Any = None  # the captured call's result: each replay writes it anew

    def bind(self, values: Sequence[Tensor]) -> None:
        self.graphed = self.result = None
        super().bind(values)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(side):
            for _ in range(GRAPH_WARMUP):
                super().call()
                self.hosted.renew()
        torch.cuda.current_stream().wait_stream(side)
        graphed = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graphed):
            self.result = super().call()
        self.graphed = graphed

    def rest(self, values: Sequence[Tensor]) -> None:
        self.graphed = self.result = None
        super().rest(values)

    def reset(self, values: Sequence[Tensor]) -> None:
        """Objects that the captured call changed hold the results of each replay."""
        self.renews = False
        super().reset(values)

    def call(self) -> Any:
        assert self.graphed is not None
        self.graphed.replay()
        return self.result


class BaselineProcess:
    """The handlers of a baseline's process."""

    stopwatch: Stopwatch
    kind: str
    tf32: tuple[bool, ...]  # whether each of the backends was allowed it at the start

    def load(
        self,
        task_file: str,
        variant: str,
        kind: str,
        values: str,
        writable: list[str],
        threads: int,
        flush_bytes: int,
        device: str = "cpu",
    ) -> dict[str, Any]:
        """Confine the process, build the module and call it once, which compiles it. Returns seconds and the
        isolation level.
        """
        level = confine(device, [Path(w) for w in writable], psutil.virtual_memory().available)
        task = Task.model_validate_json(Path(task_file).read_text())
        factory = CudaGraph if kind == "cuda-graph" else Reference
        callee = factory(task, variant, kind, device)
        self.kind, self.tf32 = kind, read_tf32()
        blocks = output_blocks(callee.graph, callee.graph.returned)
        self.stopwatch = make_stopwatch(device, callee.graph, callee, flush_bytes, blocks)
        steady_state(threads)
        seconds = self.stopwatch.prepare(values, 1, alone=False)["seconds"]
        gc.collect()
        gc.freeze()
        return {"seconds": seconds, "isolation": level}

    def allow_tf32(self, allowed: bool) -> None:
        """Raises RuntimeError for a call that was captured or compiled with its arithmetic."""
        if self.kind != "eager":
            raise RuntimeError(f"the arithmetic of {self.kind} is fixed")
        set_tf32([allowed and before for before in self.tf32])

    def handlers(self) -> dict[str, Callable[..., dict[str, Any] | None]]:
        return {
            "load": self.load,
            "prepare": lambda **fields: self.stopwatch.prepare(**fields),
            "again": lambda **fields: self.stopwatch.again(**fields),
            "time": lambda **fields: self.stopwatch.time(**fields),
            "outputs": lambda **fields: self.stopwatch.outputs(**fields),
            "rest": lambda: self.stopwatch.rest(),
            "allow_tf32": self.allow_tf32,
        }


# Users of the timing routine find all of it here.
__all__ = [
    "BaselineProcess",
    "Block",
    "Callee",
    "CudaGraph",
    "Reference",
    "Stopwatch",
    "arrange",
    "flush_buffer",
    "map_updated_inputs",
    "output_blocks",
    "steady_state",
]


if __name__ == "__main__":
    serve(BaselineProcess().handlers())
