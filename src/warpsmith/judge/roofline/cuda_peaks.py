"""Trusted process that measures the peak rates of a GPU with torch's own kernels.

In (a request): `measure`. Out: the fields of `peaks.Peaks`, and the names of those rates beside which the device had
other work. Bandwidth counts bytes read plus written, for a
set that fits the L2 cache and for one far larger; each is the best of several kernels and runs. In the cache
the kernels run from a CUDA graph, and the difference between two sizes tells the rate, so that neither
launching nor starting a kernel counts against it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ...processes.worker import serve
from ..timing.cuda_clock import QUIET_MIN_S, start_cuda, wait_until_quiet

REPEATS = 10
GRAPHED = 40  # kernels in a graph
LEAST_SHARE = 0.25  # of a run's time, in the cache, that moving bytes takes at least
SQUARE = 8192  # rows and columns of the matrices; FP32 takes half
MAX_SET_BYTES = 2 << 30  # of a set in memory
PATIENCE_S = 2.0  # to wait before each rate until the device has no other work

Kernel = Callable[[], object]


class _Meter:
    """Measures one rate after another, and notes beside which of them the device had other work."""

    def __init__(self) -> None:
        self._nothing = torch.zeros(1, device="cuda")
        self.busy: list[str] = []

    def read(self, name: str, measure: Callable[[], float]) -> float:
        quiet = wait_until_quiet(self._nothing, PATIENCE_S)
        rate = measure()
        if not (quiet and wait_until_quiet(self._nothing, QUIET_MIN_S)):
            self.busy.append(name)
        return rate


def measure() -> dict[str, Any]:
    """Raises JudgeError where CUDA does not start."""
    start_cuda()
    meter, cache = _Meter(), int(torch.cuda.get_device_properties(0).L2_cache_size)
    small, large = max(cache // 2, 1 << 20), min(MAX_SET_BYTES, torch.cuda.mem_get_info()[0] // 4)
    tables = {
        field: {
            small: meter.read(f"{kind}/{small}", partial(_measure_cached_rate, kind, small)),
            large: meter.read(f"{kind}/{large}", partial(_measure_memory_rate, kind, large)),
        }
        for field, kind in (("read", "read"), ("copy_", "copy"), ("stream", "stream"))
    }  # fmt: skip
    rates = {
        "flops": meter.read("flops", lambda: _product(torch.float32, SQUARE // 2, tf32=False)),
        "tf32": meter.read("tf32", lambda: _product(torch.float32, SQUARE, tf32=True)),
        "narrow": meter.read("narrow", lambda: _product(torch.bfloat16, SQUARE, tf32=False)),
    }
    return {"rates": {"threads": 0, "last_cache": cache, **tables, **rates}, "busy": meter.busy}


def _kernels(size: int) -> dict[str, Kernel]:
    """Kernels that touch `size` bytes in all, by what they do."""
    array = torch.ones(size // 4, device="cuda")
    source, target = array[: size // 8], array[size // 8 : size // 8 * 2]
    total = torch.empty((), device="cuda")
    return {
        "read": lambda: torch.sum(array, dim=0, out=total),
        "copy": lambda: source.copy_(target),
        "stream": lambda: array.fill_(1.0),
    }


def _measure_memory_rate(kind: str, size: int) -> float:
    return size / _seconds(_kernels(size)[kind])


def _measure_cached_rate(kind: str, size: int) -> float:
    part = size // 4
    full, partial_set = _kernels(size)[kind], _kernels(part)[kind]
    all_of_it = _seconds(_graph(full))
    longer = max(all_of_it - _seconds(_graph(partial_set)), LEAST_SHARE * all_of_it)
    return GRAPHED * (size - part) / longer


def _product(dtype: torch.dtype, n: int, *, tf32: bool) -> float:
    """Operations per second of a matrix product, a multiply-add counted as two."""
    torch.backends.cuda.matmul.allow_tf32 = tf32
    a = torch.randn(n, n, device="cuda").to(dtype)
    b, result = a.t().contiguous(), torch.empty_like(a)
    return 2.0 * n**3 / _seconds(lambda: torch.mm(a, b, out=result))


def _graph(kernel: Kernel) -> Kernel:
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        kernel()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(GRAPHED):
            kernel()
    return graph.replay


def _seconds(kernel: Kernel) -> float:
    """Best of some runs, after one that is not counted."""
    times = []
    for _ in range(REPEATS + 1):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        kernel()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return min(times[1:])


def handlers() -> dict[str, Callable[[], dict[str, Any]]]:
    return {"measure": measure}


if __name__ == "__main__":
    serve(handlers())
