"""Operators of verified kernels: a region of a graph and the library of its unit become `torch.ops.warpsmith.<name>`.

In: the task's graph, the unit's region, the built library. Out: the operator, named by the hash of all that it does, so that every
process gives the same kernel the same name and none is defined twice.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import TaskError
from ..records import Graph, Region, TensorSpec, content_hash
from ..tasks.values import literal_tensor, torch_dtype
from .deployed import deploy
from .fx_graphs import extract_region, find_updated_input, to_fx
from .operators import Signature, TensorForm, define_operator, find_operator

NAMESPACE = "warpsmith"


def define_unit_operator(
    graph: Graph, region: Region, library: Path, device: str, title: str = "unit"
) -> Any:
    """Define the operator of one unit. It takes `region.inputs` without literals, and returns `region.outputs`.

    Raises TaskError for a region that reads no tensor, JudgeError for a library that does not load.
    """
    return define_graph_operator(extract_region(graph, region), [(region, library)], device, title)


def define_graph_operator(
    graph: Graph,
    parts: Sequence[tuple[Region, Path]],
    device: str,
    title: str,
    reference: Graph | None = None,
) -> Any:
    """Define the operator of a whole graph with units in it. It takes the graph's inputs in order, without literals, and returns
    the tensors among its outputs. `reference`: the graph as it was before a winner's rewrites, whose gradients are taken.

    Raises TaskError for a graph that reads no tensor, JudgeError for a library that does not load.
    """
    digest = hashlib.sha256(content_hash([graph.id, device]).encode())
    for region, library in parts:
        digest.update(region.id.encode() + library.read_bytes())
    slug = re.sub(r"\W+", "_", title, flags=re.ASCII).strip("_").lower() or "unit"
    qualname = f"{NAMESPACE}::{slug if slug[0].isalpha() else f'unit_{slug}'}_{digest.hexdigest()[:12]}"
    if (existing := find_operator(qualname)) is not None:
        return existing
    run, plain = deploy(graph, parts, device), to_fx(reference or graph, device=device, updates=False)
    positions = [
        n for n, o in enumerate(o for o in graph.outputs if o.role == "output") if o.value is not None
    ]
    literal_tensors = _literals(graph, device)

    def run_kernels(inputs: Sequence[Any]) -> list[Any]:
        waiting = iter(inputs)
        results = run([literal if literal is not None else next(waiting) for literal in literal_tensors])
        return [results[n] for n in positions]

    def run_plain(*inputs: Any) -> tuple[Any, ...]:
        results = plain(*inputs)
        return tuple(r for r in results if r is not None and hasattr(r, "dtype"))

    return define_operator(qualname, make_signature(graph, device), run_kernels, run_plain)


def make_signature(graph: Graph, device: str) -> Signature:
    """The signature of a graph's operator. Raises TaskError for a graph that reads no tensor."""
    inputs = [i for i in graph.inputs if not i.data]
    if not inputs:
        raise TaskError("a region that reads no tensor cannot be an operator")
    names = [i.name for i in inputs]
    changed = [o for o in graph.outputs if o.role != "output" and o.value is not None]
    return Signature(
        inputs=tuple(_form(i.spec) for i in inputs),
        outputs=tuple(
            _form(graph.specs[o.value]) for o in graph.outputs if o.role == "output" and o.value is not None
        ),
        updated=tuple(names.index(find_updated_input(graph, o)) for o in changed),
        device=device,
    )


def _literals(graph: Graph, device: str) -> list[Any]:
    return [literal_tensor(i).to(device) if i.data else None for i in graph.inputs]


def _form(spec: TensorSpec) -> TensorForm:
    return TensorForm(spec.shape, torch_dtype(spec.dtype), spec.stride)


__all__ = ["define_graph_operator", "define_unit_operator", "make_signature"]
