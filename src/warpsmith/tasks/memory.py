"""A module or function the caller holds, with example inputs, becomes a Task (in the caller's own process,
with torch).

In: an `nn.Module` and arguments. Out: a Task whose source is a file: the exported program, from which a
clean process rebuilds an eager module, and beside it a values file (`.values`) of the parameters and
inputs. Neither holds code of the caller.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..errors import TaskError
from ..records import Graph, GraphInput, Task, TaskSource, TensorSpec, Variant, content_hash
from .convert import tensor_spec
from .emptiness import refuse_empty
from .export import describe, export_used
from .flattened import CallShape, refuse_scripted
from .functions import FunctionModule, as_module, find_called_function
from .hosted import HostedModule, collect_values, refuse_unsteady
from .module_state import ModuleState, keep_buffers
from .operator_libraries import save_program
from .values import open_tensors, write_tensors
from .variants import op_difference

_RAGGED = (13, 7, 3)  # batches tried for the variant


@dataclass(frozen=True)
class ModuleTask:
    """A task made from a module that the caller holds, and the caller's own classes by the names that its graph uses."""

    task: Task
    names: Mapping[str, Any]


def task_from_module(
    module: torch.nn.Module | Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    workdir: Path,
    name: str | None = None,
) -> Task:
    """Export a module as `export_module` does; return the task alone."""
    return export_module(module, args, kwargs, workdir, name).task


def export_module(
    module: torch.nn.Module | Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    workdir: Path,
    name: str | None = None,
    points: Mapping[str, tuple[tuple[Any, ...], Mapping[str, Any]]] | None = None,
) -> ModuleTask:
    """Export at the shapes of the arguments, and at those of `points`, (args, kwargs) by name of a variant; without points at a ragged
    batch where that runs the same ops. The module stays as it is.

    Raises TaskError, also where it is another graph at a point.
    """
    original, kwargs = as_module(module), dict(kwargs)
    refuse_scripted(original)  # first of all: it has no forward to look at
    plain = isinstance(original, FunctionModule)
    filename = _file_of(find_called_function(original) if plain else type(original).forward)
    name = (
        name
        or (getattr(find_called_function(original), "__name__", "") if plain else "")
        or type(original).__name__
    )
    state = ModuleState(original)
    try:
        exported, graph = export_used(original, args, kwargs, filename)
        if exported.unsteady:
            _call_once(original, args, kwargs, filename)
            exported, graph = export_used(original, args, kwargs, filename)
            refuse_unsteady(exported)
        refuse_empty(graph)
        hosted = HostedModule(original, tuple(args), kwargs, unused=exported.unused)
        values = collect_values(hosted, graph.inputs)
        source = _save(exported.program, graph, values, workdir, name)
        if points:
            further = [
                _export_variant(original, point, *call, filename, graph) for point, call in points.items()
            ]
        else:
            ragged = _make_ragged_variant(original, args, kwargs, filename, graph)
            further = [ragged] if ragged is not None else []
    finally:
        state.restore()
    main = Variant(name="main", overrides={}, graph=graph)
    note = "" if further else "no other shapes: the inputs share no batch dimension that can be changed alone"
    return ModuleTask(Task(name=name, source=source, variants=(main, *further), note=note), exported.names)


def _export_variant(
    module: torch.nn.Module,
    name: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    filename: str,
    main: Graph,
) -> Variant:
    """Raises TaskError where the module runs other ops, or with other options, than at the main shape."""
    _, graph = export_used(module, args, kwargs, filename)
    difference = op_difference(main, graph)
    if difference:
        shapes = ", ".join(str(list(item.spec.shape)) for item in graph.inputs if item.role == "input")
        raise TaskError(f"at inputs of {shapes} the module is another graph: {difference}")
    return Variant(name=name, overrides={}, graph=graph)


def _call_once(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], filename: str
) -> None:
    """Bring the module's attributes to what a first call leaves; parameters and buffers stay as they are."""
    call = CallShape.of(find_called_function(module), args, kwargs)
    new_args, new_kwargs, _ = call.arguments([t.clone() for t in call.parts.leaves])
    with torch.no_grad(), keep_buffers(module):
        try:
            module(*new_args, **new_kwargs)
        except Exception as error:
            raise TaskError(describe(error, filename, "calling the module on the example inputs")) from error


def load_saved_values(export_file: Path, inputs: tuple[GraphInput, ...], seed: int) -> list[torch.Tensor]:
    """Values of `inputs` from those saved with a task.

    An input of other sizes gets rows drawn with the seed, along each axis that differs.
    """
    path, specs = export_file.with_suffix(".values"), _list_saved_specs(export_file)
    if len(specs) != len(inputs):
        raise TaskError(f"{export_file.name} was saved for another graph; optimize the module again")
    saved = open_tensors(path, specs, writable=False)
    generator = torch.Generator().manual_seed(seed)
    return [_resize(value, item.spec, generator) for value, item in zip(saved, inputs, strict=True)]


def _resize(value: torch.Tensor, spec: TensorSpec, generator: torch.Generator) -> torch.Tensor:
    if tuple(value.shape) == spec.shape:
        return value
    if len(spec.shape) != value.dim():
        raise TaskError(f"a saved input is {list(value.shape)} where {list(spec.shape)} is needed")
    for axis, size in enumerate(spec.shape):
        if value.shape[axis] != size:
            rows = torch.randint(value.shape[axis], (size,), generator=generator)
            value = value.index_select(axis, rows.to(value.device))
    return value


def _save(program: Any, graph: Graph, values: list[torch.Tensor], workdir: Path, name: str) -> TaskSource:
    """Files named by what they hold, so that two tasks never share one.

    Raises TaskError when they cannot be written.
    """
    digest = content_hash(
        [graph.id, [float(v.double().sum()) if v.numel() and not v.is_complex() else 0.0 for v in values]]
    )
    path = workdir / f"{re.sub(r'[^A-Za-z0-9_]', '_', name)}-{digest}.pt2"
    specs = [i.spec for i in graph.inputs]
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".values").unlink(missing_ok=True)
        save_program(program, path)
        write_tensors(path.with_suffix(".values"), specs, values)
        path.with_suffix(".json").write_text(json.dumps([s.model_dump(mode="json") for s in specs]))
    except OSError as error:
        raise TaskError(f"cannot save the exported module in {workdir}: {error.strerror or error}") from error
    return TaskSource(kind="memory", path=name, entry=name, export_file=str(path))


def _list_saved_specs(export_file: Path) -> list[TensorSpec]:
    try:
        return [
            TensorSpec.model_validate(s) for s in json.loads(export_file.with_suffix(".json").read_text())
        ]
    except (OSError, ValueError) as error:
        raise TaskError(
            f"{export_file.name} and its values are gone or damaged; optimize the module again"
        ) from error


def _make_ragged_variant(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], filename: str, main: Graph
) -> Variant | None:
    """The module at another batch, if every tensor argument has the same first dimension and the ops stay the
    same.
    """
    call = CallShape.of(find_called_function(module), args, kwargs)
    tensors = call.parts.leaves
    sizes = {t.shape[0] if t.dim() else 0 for t in tensors}
    batch = next(iter(sizes)) if len(sizes) == 1 else 0
    for rows in (r for r in _RAGGED if r < batch):
        new_args, new_kwargs, _ = call.arguments([t[:rows].clone() for t in tensors])
        try:
            _, graph = export_used(module, new_args, new_kwargs, filename)
        except TaskError:
            continue
        if not op_difference(main, graph):
            return Variant(name="ragged", overrides={}, graph=graph)
    return None


def _file_of(function: Any) -> str:
    code = getattr(function, "__code__", None)
    return code.co_filename if code is not None else ""


__all__ = ["FunctionModule", "as_module", "load_saved_values", "task_from_module", "tensor_spec"]
