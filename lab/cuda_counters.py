"""Hardware counters of units that a look found fastest, by Nsight Compute: bytes from memory, hit rates, throughputs. Times do not say what a kernel waits for.

In: a graph, the candidates of a look beside what was seen of them, a folder. Out: each of the fastest `most` has `counters`: metric → value as
`warpsmith.profile.ncu` names them, or in one line why there are none. Only candidates of one unit that reads the task's own inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from warpsmith import machine
from warpsmith.errors import WarpsmithError
from warpsmith.profile import ncu
from warpsmith.profile.harness import Call, cuda_harness
from warpsmith.records import Graph, GraphInput, Region
from warpsmith.targets.cuda_toolkit import toolkit
from warpsmith.tasks.values import write_tensors

Draw = Callable[[GraphInput], torch.Tensor]


def count(
    graph: Graph, made: Sequence[dict[str, Any]], seen: Sequence[dict[str, Any]], most: int, folder: Path, draw: Draw
) -> None:  # fmt: skip
    """`made`: what was built of each candidate, `seen`: what was seen of it; the latter is added to."""
    timed = sorted(
        (pair for pair in zip(made, seen, strict=True) if "us" in pair[1]), key=lambda p: p[1]["us"]
    )
    for built, found in timed[:most]:
        try:
            found["counters"] = counters(graph, built["parts"], folder, draw)
        except WarpsmithError as error:
            found["counters"] = str(error)


def counters(
    graph: Graph, parts: Sequence[tuple[Region, str]], folder: Path, draw: Draw
) -> dict[str, float] | str:
    """Raises WarpsmithError where the program that runs a unit cannot be built, or its values not be written."""
    items = {i.name: i for i in graph.inputs}
    if len(parts) != 1 or not set(parts[0][0].inputs) <= set(items):
        return "only a single unit that reads the task's own inputs is counted"
    region, library = parts[0]
    kit = toolkit()
    program = cuda_harness(folder, machine.find_compiler(), kit.include, kit.libraries)
    given = [items[name] for name in region.inputs]
    values, specs = folder / "values", [i.spec for i in given]
    outputs = tuple(graph.specs[name] for name in region.outputs)
    try:
        write_tensors(values, specs, (draw(i) for i in given))
        call = Call(Path(library), values, tuple(specs), outputs)
        told = ncu.observe(call.command(program, 1))
    finally:
        values.unlink(missing_ok=True)
    return told.metrics or told.reason
