"""A graph of `torch.compile` as a `records.Graph`, and the proof that what is made of that graph behaves like it.

In: the fx module that dynamo hands to a backend, with its inputs. Out: the graph; or TaskError with the reason, for what a fixed
functional graph cannot hold. Nothing is computed: all of it runs on fake tensors.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch
from torch._guards import tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from ..errors import TaskError
from ..records import Graph
from ..tasks.export import export_program, program_graph
from ..tasks.hosted import find_tensor

_FILE = "<compiled graph>"


def to_graph(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Graph:
    """Export the module in ATen. Raises TaskError."""
    for value in inputs:
        if not isinstance(value, torch.Tensor):
            raise TaskError("a size is dynamic (compile with dynamic=False for a graph of each shape)")
    with tracing(None), torch.no_grad():
        fakes = fake_inputs(inputs)
        return program_graph(export_program(module, fakes, {}, _FILE, "its inputs"), _FILE)


def restore_constants(
    changed: torch.fx.GraphModule, graph: Graph, module: torch.fx.GraphModule
) -> torch.fx.GraphModule:
    """Give a graph that was made from another the tensors that the other holds itself, and its results that are no tensors: None,
    above all, for an input of backward that needs no gradient.
    """
    _hold_tensors(changed, graph, module)
    tree = json.loads(graph.tree)
    entries = next(iter(tree.values())) if isinstance(tree, dict) and len(tree) == 1 else None
    output = next(node for node in changed.graph.nodes if node.op == "output")
    if isinstance(entries, list) and any(isinstance(e, dict) and "const" in e for e in entries):
        results = [e["const"] if isinstance(e, dict) and "const" in e else output.args[0][e] for e in entries]
        output.args = (tuple(results),)
    changed.recompile()
    return changed


def _hold_tensors(changed: torch.fx.GraphModule, graph: Graph, module: torch.fx.GraphModule) -> None:
    placeholders = [node for node in changed.graph.nodes if node.op == "placeholder"]
    items = [item for item in graph.inputs if not item.data]
    for item, node in zip(items, placeholders, strict=True):
        if item.role == "input":
            continue
        tensor = find_tensor(module, item.target)
        if tensor is None:
            raise TaskError(f"the graph holds {item.target}, which cannot be found in it")
        changed.register_buffer(f"held_{node.name}", tensor, persistent=False)
        with changed.graph.inserting_before(node):
            node.replace_all_uses_with(changed.graph.get_attr(f"held_{node.name}"))
        changed.graph.erase_node(node)


def fake_inputs(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Fake tensors like these, each with memory of its own."""
    with FakeTensorMode() as mode:
        return [_fake(mode, t) for t in inputs]


def explain_difference(
    module: torch.fx.GraphModule, other: torch.fx.GraphModule, inputs: Sequence[Any]
) -> str:
    """Say how the results of two modules differ in form, in memory that they share with inputs, or in inputs that they update.

    Empty where they do not.
    """
    with tracing(None), torch.no_grad():
        before, after = _observe(module, inputs), _observe(other, inputs)
    for title, a, b in zip(("results", "results' sharing of memory"), before, after, strict=False):
        if a != b:
            return f"its {title} would not be the same"
    # Batch normalisation updates its statistics without torch's noting it; the graph does so openly.
    forgotten = [n for n, (a, b) in enumerate(zip(before[2], after[2], strict=True)) if a and not b]
    return f"the update of its input {forgotten[0]} would be lost" if forgotten else ""


def _observe(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Forms of the results, which of them lie in whose memory, and which inputs were written."""
    fakes = fake_inputs(inputs)
    versions = [t._version for t in fakes]
    mode = fakes[0].fake_mode if fakes and isinstance(fakes[0], FakeTensor) else FakeTensorMode()
    with mode:
        module = _on_fakes(module, mode)
        results = module(*fakes)
    leaves = list(results) if isinstance(results, list | tuple) else [results]
    owners: dict[Any, str] = {t.untyped_storage()._cdata: f"input {n}" for n, t in enumerate(fakes)}
    forms, memory = [], []
    for number, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor):
            forms.append(repr(leaf))
            continue
        forms.append(f"{leaf.dtype} {list(leaf.shape)} {leaf.stride()} {leaf.device.type}")
        memory.append(owners.setdefault(leaf.untyped_storage()._cdata, f"result {number}"))
    return forms, memory, [t._version > v for t, v in zip(fakes, versions, strict=True)]


def _on_fakes(module: torch.fx.GraphModule, mode: FakeTensorMode) -> Any:
    """The module with fake ones for the tensors that it holds."""
    state: dict[str, torch.Tensor] = {
        name: mode.from_tensor(tensor)
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]
        if not isinstance(tensor, FakeTensor)
    }
    if not state:
        return module
    return lambda *args: torch.func.functional_call(module, state, args)


def _fake(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, FakeTensor):
        raise TaskError(f"an input is a {type(tensor).__name__}")
    if tensor.layout is not torch.strided:
        raise TaskError(f"an input has the layout {tensor.layout}")
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)


__all__ = ["explain_difference", "fake_inputs", "restore_constants", "to_graph"]
