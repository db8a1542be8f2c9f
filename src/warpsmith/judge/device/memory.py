"""Memory estimates: whether judging a task fits into this machine, told before anything of that size is allocated."""

from __future__ import annotations

import psutil

from ...errors import TaskError
from ...processes.buffers import extent_bytes
from ...records import Graph, Task

VALUES_FILES = 5  # the task's own values, two fresh ones and other families'
PROCESSES = 5  # eager, two compiled, the candidate, the reference worker
WIDE = 4  # the oracle holds float64, disturbed and not
GIVEN, MADE = 2, 6  # copies of inputs, and of what a region makes, that lie on the host where a GPU computes
CHECKS, CHECKS_LEAST = 12, 3  # timed calls of a confirmation whose outputs are checked
CHECKED_BYTES = 2 << 30  # that these samples may take together
KEPT_BYTES = 1 << 30  # of values files that every timed process keeps on a GPU, at the least one file
# Bytes of inputs and intermediates from which on processes on a GPU rest between their blocks: as many runs as fit go on beside.
GPU_ROOM = 1 << 30


def estimate_bytes(graph: Graph, device: str = "cpu") -> int:
    """Estimate bytes of the host's memory. Inputs as files and copied into each process, live intermediates in each, and both widened in
    the reference worker. For a GPU ("cuda") only the files, the buffers of a unit in isolation, and what it made.
    """
    inputs = sum(extent_bytes(i.spec) for i in graph.inputs)
    if device == "cuda":
        return inputs * (VALUES_FILES + GIVEN) + live_bytes(graph) * MADE
    return inputs * (VALUES_FILES + PROCESSES + WIDE) + live_bytes(graph) * (PROCESSES + WIDE)


def count_checked_calls(graph: Graph) -> int:
    """Count the timed calls of a confirmation that are checked: one that skips every second call is missed once in 4096
    judgements by twelve of them. Of tasks so large that the samples would not fit, fewer.
    """
    sample = sum(extent_bytes(i.spec) for i in graph.inputs)
    sample += sum(extent_bytes(graph.specs[o.value]) for o in graph.outputs if o.value is not None)
    return min(CHECKS, max(CHECKS_LEAST, CHECKED_BYTES // max(1, sample)))


def count_kept_files(graph: Graph) -> int:
    """Count the values files that stay on a GPU: more would be copied there for every block, which takes far longer than its calls."""
    return max(1, KEPT_BYTES // max(1, sum(extent_bytes(i.spec) for i in graph.inputs)))


def is_crowded(graph: Graph) -> bool:
    """True where a GPU has no room for what all timed processes' calls take at a time."""
    return sum(extent_bytes(i.spec) for i in graph.inputs) + live_bytes(graph) > GPU_ROOM


def live_bytes(graph: Graph) -> int:
    """The most that intermediate values take at one time when each is freed after its last use."""
    last = {name: index for index, node in enumerate(graph.nodes) for name in node.uses}
    live, peak = 0, 0
    sizes: dict[str, int] = {}
    for index, node in enumerate(graph.nodes):
        for value in node.outputs:
            if value is not None:
                sizes[value.name] = extent_bytes(value.spec)
                live += sizes[value.name]
        peak = max(peak, live)
        for name in node.uses:
            if last[name] == index and name in sizes and name not in graph.returned:
                live -= sizes.pop(name)
    return peak


def check_memory(task: Task, available: int | None = None, device: str = "cpu") -> None:
    """Raises TaskError when the main variant is too large for this machine."""
    needed = estimate_bytes(task.graph, device)
    available = available if available is not None else int(psutil.virtual_memory().available)
    if needed > available:
        raise TaskError(
            f"{task.name} needs about {needed / 2**30:.1f} GiB to be judged, "
            f"only {available / 2**30:.1f} GiB are available: "
            "make its sizes smaller"
        )
