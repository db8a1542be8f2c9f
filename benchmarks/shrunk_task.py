"""A KernelBench task at shapes small enough to be tried many times on a CPU, chosen by rule and never by hand.

A task file in, a `Task` of one variant out. Sizes are module-level integers, divided by powers of two: the
batch alone if that suffices, because it leaves the values what they are; then the other sizes that only the
inputs have; then all of them. A shape counts only if the graph still runs the same ops with the same options.
Where a smaller shape does not construct, or is smaller than it has to be (a product's cost goes with the cube of its one size),
less shrinking is tried, and what came closest is returned.
"""

from __future__ import annotations

import ast
from math import ceil, inf, log2, prod
from typing import Any

from warpsmith.errors import TaskError
from warpsmith.processes.buffers import Scratch
from warpsmith.records import ITEM_BYTES, Graph, Task, Variant
from warpsmith.tasks.client import TaskHost
from warpsmith.tasks.load import read_source, task_name
from warpsmith.tasks.source import constants, parse
from warpsmith.tasks.variants import _attempts, _shrunk, op_difference

TRIES = 6  # exports for one set of sizes
LEAST = 2  # no size becomes smaller: a batch of one hides what mixes rows


class Bounds:
    """What a shape may cost at the most: bytes moved at least, bytes of every value made, operations."""

    def __init__(self, least_bytes: float = 8 << 20, made: float = 64 << 20, flops: float = 5e8) -> None:
        self.least_bytes, self.made, self.flops = least_bytes, made, flops

    def excess(self, graph: Graph) -> float:
        """How many times too large; at most 1 when it fits."""
        made = sum(
            prod(v.spec.shape) * ITEM_BYTES[v.spec.dtype]
            for n in graph.nodes
            for v in n.outputs
            if v is not None
        )
        return max(graph.least_bytes / self.least_bytes, made / self.made, graph.flops / self.flops)


UNBOUNDED = Bounds(inf, inf, inf)


def shrunk_task(path: str, bounds: Bounds, *, scratch: Scratch, timeout: float) -> Task:
    """Raises TaskError when the task does not even load at its own shapes."""
    with TaskHost(read_source(path), scratch=scratch, timeout=timeout) as host:
        overrides: dict[str, Any] = {}
        graph = full = host.export({})
        tree = parse(host.source.text, path)
        for slots, alike in reversed(_attempts(tree, constants(tree))) if bounds.excess(full) > 1 else ():
            found = _smaller(host, tree, full, slots, alike, bounds)
            if found is not None and bounds.excess(found[1]) < bounds.excess(graph):
                overrides, graph = found
            if bounds.excess(graph) <= 1:
                break
        main = Variant(name="main", overrides=overrides, graph=graph)
        return Task(name=task_name(host.source), source=host.source, variants=(main,), suite="kernelbench")


def _smaller(
    host: TaskHost, tree: ast.Module, full: Graph, slots: Any, alike: bool, bounds: Bounds
) -> tuple[dict[str, Any], Graph] | None:
    """The best of a few shifts of these sizes: more where it is still too large, less where it fails or fits."""
    known, best, found_fit = constants(tree), None, False
    large, most = 0, max((_value(known, s).bit_length() - 1 for s in slots), default=0)
    shift = min(most, _more(bounds.excess(full), len(slots)))
    for _ in range(TRIES):
        if not large < shift <= most:
            break
        overrides = _shrunk(known, slots, alike, lambda values: [_divided(v, shift) for v in values])  # noqa: B023
        try:
            graph = host.export(overrides)
            fails = bool(op_difference(full, graph))
        except TaskError:
            if not host.worker.alive:
                break
            fails = True
        fits = not fails and bounds.excess(graph) <= 1
        if fits or not (fails or found_fit):
            best, found_fit = (overrides, graph), fits
        if fails or fits:
            most, shift = shift - 1, (large + shift) // 2
        else:
            large, shift = shift, min(most, shift + _more(bounds.excess(graph), len(slots)))
    return best


def _more(excess: float, slots: int) -> int:
    return max(1, ceil(log2(excess) / max(1, slots)))


def _divided(value: int, shift: int) -> int:
    return max(min(value, LEAST), value >> shift)


def _value(known: dict[str, Any], slot: tuple[str, int | None]) -> int:
    name, index = slot
    value: int = known[name] if index is None else known[name][index]
    return value
