"""The question to a model that learns from the archive: a task, and the regions of it to write units for, as text.

The text names the module, the regions in ATen, the shapes and types of what goes in and out, and the entry point, so that
it stands alone. It says nothing of the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..records import Candidate, Region, Task, TensorSpec
from .units import listing

_WRITE = {
    (
        "cpu",
        True,
    ): "Write one C++ unit for each region of this PyTorch module, as fast as it can be on a CPU.",
    (
        "cuda",
        True,
    ): "Write one CUDA C++ unit for each region of this PyTorch module, as fast as it can be on a GPU.",
    (
        "cpu",
        False,
    ): "Choose regions of this PyTorch module and write one C++ unit for each, as fast as it can be on a CPU.",
    (
        "cuda",
        False,
    ): "Choose regions of this PyTorch module and write one CUDA C++ unit for each, as fast as it can be "
    "on a GPU.",
}


def prompt(task: Task, target: str, regions: Sequence[Region] = ()) -> str:
    """Without regions, those of the whole module are the author's to choose."""
    request = _WRITE.get((target, bool(regions)), f"Write units for this PyTorch module, for {target}.")
    code = task.source.text.strip("\n")
    parts = [request]
    if code:
        parts.append(f"```python\n{code}\n```")
    if not regions:
        parts.append(f"The module in ATen:\n{listing(task.graph)}")
    parts += [_region(task, region, number) for number, region in enumerate(regions, 1)]
    return "\n\n".join(parts).rstrip("\n") + "\n"


def fits(task: Task, candidate: Candidate) -> bool:
    """Return whether every region is one of the task's graph: a record from elsewhere may name what is not there."""
    nodes, values = set(task.graph.by_name), set(task.graph.specs)
    regions = [unit.region for unit in candidate.units]
    return all(nodes.issuperset(r.nodes) and values.issuperset((*r.inputs, *r.outputs)) for r in regions)


def _region(task: Task, region: Region, number: int) -> str:
    specs = task.graph.specs
    inputs = [f"in{i} = {name}: {_spec(specs[name])}" for i, name in enumerate(region.inputs)]
    outputs = [f"out{i} = {name}: {_spec(specs[name])}" for i, name in enumerate(region.outputs)]
    pointers = [f"const in{i}_t* in{i}" for i in range(len(inputs))]
    pointers += [f"out{i}_t* out{i}" for i in range(len(outputs))]
    entry = f"static void unit({', '.join([*pointers, 'void* workspace', 'void* stream'])})"
    lines = [f"Region {number} in ATen:", listing(task.graph, region.nodes).rstrip("\n"), *inputs, *outputs]
    return "\n".join([*lines, f"Entry point, with the types from task.h: {entry}"])


def _spec(spec: TensorSpec) -> str:
    layout = "contiguous" if spec.contiguous else f"strides {list(spec.stride)}"
    return f"{spec.dtype} {list(spec.shape)}, {layout}"
