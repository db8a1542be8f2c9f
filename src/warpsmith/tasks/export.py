"""A module and example inputs become a graph: `torch.export`, then decomposition, then plain data.

In: an `nn.Module` with real or fake parameters, and arguments of the same kind, of any classes. Out: the `ExportedProgram`
of the flat module (see `flattened`) and its `records.Graph`. Whatever torch says on the way becomes one TaskError that names
the user's line.
"""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch._decomp import decompositions
from torch._export import utils as export_utils
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram, exported_program
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from ..errors import TaskError
from ..records import Graph
from .convert import to_graph
from .decompositions import decomposition_table, drop_empty_operands
from .flattened import FlatModule
from .nodes import FIXED_GRAPH
from .repeated_heads import share_repeated_heads
from .structure import list_held
from .thin_products import spread_thin_products
from .undone_copies import drop_undone_copies

_DATA_DEPENDENT = (
    "GuardOnDataDependentSymNode",
    "DataDependentOutputException",
    "UserError",
    "PendingUnbackedSymbolNotFound",
)

# Of what torch takes most of its time for while it decomposes: where it looks operators up, and the kinds of devices
# for which it gives each a kernel.
_LOOK_UP = "_materialize_cpp_cia_ops"
_DEVICES = ("_AUTOGRAD_ALIAS_BACKEND_KEYS_TO_OVERRIDE", "_BACKEND_KEYS_TO_OVERRIDE")

_MISMATCH = re.compile(r"forward\(\)|missing a required|too many positional|unexpected keyword")


@dataclass(frozen=True)
class Exported:
    """A program over flat tensors, and how arguments and results nest: `call` and `tree` as `Graph` has them, with the
    user's own classes in `names`.
    """

    program: ExportedProgram
    call: Any
    tree: Any
    names: Mapping[str, Any]
    unsteady: str = ""  # see `flattened.Returns`
    unused: frozenset[int] = frozenset()  # see `structure`


def export_program(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    filename: str,
    inputs: str = "the example inputs",
    unused: frozenset[int] = frozenset(),
) -> Exported:
    """Export in the mode the module is in, not yet decomposed. `inputs`: what a user calls the arguments; `unused`: tensors among them
    that are to be no inputs (see `structure`). Raises TaskError.
    """
    flat = FlatModule(module, args, kwargs, unused)
    try:
        with torch.no_grad(), warnings.catch_warnings(), recurrence_in_one_step():
            warnings.simplefilter("ignore")
            program = torch.export.export(flat, flat.tensors, strict=False)
    except TaskError:
        raise
    except Exception as error:
        refused = next((e for e in _chain(error) if isinstance(e, TaskError)), None)
        raise refused or TaskError(_export_message(error, filename, inputs)) from error
    names = {**flat.call.parts.names, **flat.returns.names}
    return Exported(program, flat.call.tree, flat.returns.tree, names, flat.returns.unsteady, unused)


def export_used(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], filename: str
) -> tuple[Exported, Graph]:
    """Export and convert; what objects among the arguments hold and no operation reads is no input of the graph. So the parts of a cache
    that belong to other layers are no part of a layer's task, and equal layers have one graph. Raises TaskError.
    """
    exported = export_program(module, args, kwargs, filename)
    graph = program_graph(exported, filename)
    arguments = [item.name for item in graph.inputs if item.role == "input"]
    used = {name for node in graph.nodes for name in node.uses}
    used |= {name for output in graph.outputs for name in (output.value, output.target) if name}
    unused = frozenset(n for n in list_held(exported.call) if arguments[n] not in used)
    if unused:
        exported = export_program(module, args, kwargs, filename, unused=unused)
        graph = program_graph(exported, filename)
    return exported, graph


def program_graph(exported: Exported, filename: str) -> Graph:
    """Decompose and convert. Raises TaskError."""
    decomposed = decompose(exported, filename)
    return to_graph(decomposed.program, filename, decomposed.call, decomposed.tree)


def decompose(exported: Exported, filename: str) -> Exported:
    """The program in the ops that a graph holds (see `decompositions`). Raises TaskError."""
    try:
        with torch.no_grad(), warnings.catch_warnings(), recurrence_in_one_step():
            warnings.simplefilter("ignore")
            with _operators_known():
                program = exported.program.run_decompositions(decomposition_table())
                drop_empty_operands(program.graph)
                drop_undone_copies(program.graph)
                share_repeated_heads(program.graph)
                spread_thin_products(program.graph)
    except Exception as error:
        raise TaskError(_export_message(error, filename)) from error
    return replace(exported, program=program)


@contextmanager
def _operators_known() -> Iterator[None]:
    """torch looks all operators up once for each of its dozens of namespaces, and gives each operator a kernel for every
    kind of device that there is: here once, and for the kinds of which tensors are. This halves the time.
    """
    originals: dict[tuple[Any, str], Any] = {}
    if hasattr(export_utils, _LOOK_UP):
        getattr(export_utils, _LOOK_UP)()
        originals[export_utils, _LOOK_UP] = lambda: None
    for name in _DEVICES:
        keys = getattr(exported_program, name, [])
        if keys:
            originals[exported_program, name] = [k for k in keys if k.name.endswith(("CPU", "CUDA", "Meta"))]
    with _replace(originals):
        yield


@contextmanager
def _replace(attributes: Mapping[tuple[Any, str], Any]) -> Iterator[None]:
    """(module, name) → another value for the time being."""
    originals = {(module, name): getattr(module, name) for module, name in attributes}
    try:
        for (module, name), value in attributes.items():
            setattr(module, name, value)
        yield
    finally:
        for (module, name), value in originals.items():
            setattr(module, name, value)


@contextmanager
def recurrence_in_one_step() -> Iterator[None]:
    """Recurrent layers stay whole ops, of which only the results' shapes are wanted; torch finds these by going
    through the sequence, which takes a minute for a thousand steps. Here a first step tells them.
    """
    names = [name for name in ("one_layer_rnn", "one_layer_lstm") if hasattr(decompositions, name)]
    layers = {(decompositions, name): partial(_one_step, getattr(decompositions, name)) for name in names}
    with _replace(layers):
        yield


def _one_step(layer: Callable[..., Any], sequence: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    if type(sequence) is not FakeTensor or get_proxy_mode() is not None or not sequence.shape[0]:
        return layer(sequence, *args, **kwargs)  # its values count
    output, last = layer(sequence[:1], *args, **kwargs)
    if isinstance(last, tuple):  # torch's loop of an LSTM returns its states with a dimension too many (2.11)
        last = tuple(state.reshape(state.shape[-2:]) for state in last)
    return output.repeat(sequence.shape[0], 1, 1), last


def last_line_in(error: BaseException, filename: str) -> str:
    """Find where in the user's file an exception passed last: "file.py:12 in forward", or empty."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == filename]
    if not frames:
        return ""
    return f"{filename.rsplit('/', 1)[-1]}:{frames[-1].lineno} in {frames[-1].name}"


# How torch says that there is no GPU, no driver, or that it was built without CUDA.
CUDA_MISSING = (
    "not compiled with CUDA",
    "No CUDA GPUs are available",
    "Found no NVIDIA driver",
    "no CUDA-capable device",
)
NO_CUDA = (
    "this machine has no GPU that torch can use: make the tensors on the CPU, or run it where there is one"
)


def describe(error: BaseException, filename: str, doing: str) -> str:
    """One line: what was being done, the exception, the user's line."""
    where = last_line_in(error, filename)
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    remedy = f"; {NO_CUDA}" if any(words in text for words in CUDA_MISSING) else ""
    return f"{doing} failed: {said[:240]}{remedy}" + (f" ({where})" if where else "")


def _export_message(error: Exception, filename: str, inputs: str = "the example inputs") -> str:
    where = last_line_in(error, filename)
    at = f" ({where})" if where else ""
    text = str(error)
    names = {type(e).__name__ for e in _chain(error)}
    if names & set(_DATA_DEPENDENT) or "data-dependent" in text:
        op = re.search(r"aten\.[\w.]+", text)
        subject = f"{op.group()} makes" if op else "the module makes"
        return f"{subject} a branch, a size or a Python number depend on data, {FIXED_GRAPH}{at}"
    if isinstance(error, TypeError) and not where and _MISMATCH.search(text):
        verb = "does" if inputs.endswith(")") else "do"
        return f"{inputs} {verb} not match forward: {text.splitlines()[0][:200]}"
    if any(isinstance(e, MemoryError) for e in _chain(error)):
        return f"the module needs more memory than the limit allows{at}"
    return describe(error, filename, "running the module on its inputs")


def _chain(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    return chain
