"""The drop-in result: a module with the original's parameters that runs verified kernels where they apply.

In: the original module, the graph it was exported to, the winning (region, library) pairs. Out: an
`nn.Module` that answers like the original: at the exported shapes, dtypes and mode, without gradients,
through the candidate; in every other case through the original.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch

from ..errors import TaskError
from ..machine import make_processor_key
from ..progress import counted
from ..records import Graph, GraphInput, Region, RunSummary
from ..records.intervals import describe_speed
from ..tasks.functions import as_module, find_called_function
from ..tasks.hosted import find_tensor
from ..tasks.values import literal_tensor, torch_dtype
from .calls import CallMatcher, Matched, Results
from .deployed import deploy
from .graph_replays import GraphReplays, list_updated
from .module_form import ModuleForm, has_same_parts, watch_as_before, watch_modules
from .stand_in import StandIn, find_surroundings
from .traceable import Exportable, Traceable


class OptimizedModule(StandIn):
    """A drop-in for `original`, whose parameters it shares.

    The kernels run in calls that are like the example: the same shapes, dtypes, device, training modes, number of hooks and
    constant arguments, outside autocast, and where no tensor needs gradients. The original answers every
    other call, and nothing is raised for it. In a model that `torch.compile` compiles they run as operators, where arguments and
    results are tensors. It can be copied and pickled, kernels included; on another processor the original
    runs.

    Attributes:
        original: The module that was given, unchanged.
        summary: The `RunSummary` of the search; None where there was none.
        fast_calls: Calls that the kernels answered.
        fallbacks: Calls that the original answered.
        last_fallback: Why the original answered last; empty where it never did.
    """

    def __init__(
        self,
        original: torch.nn.Module,
        graph: Graph,
        parts: Sequence[tuple[Region, Path]],
        summary: RunSummary | None = None,
        device: str = "cpu",
        rewritten: Graph | None = None,
        names: Mapping[str, Any] | None = None,
    ) -> None:
        """`rewritten`: the graph that the parts are put into, where units in ATen changed it; `names`: the user's classes, by
        the names that the graph uses.
        """
        super().__init__(original)
        self.device_type = device
        self.summary = summary
        self._idle = "nothing faster was found"  # why it always does, where there is nothing to run
        runs = bool(parts) or rewritten is not None
        self._guards = [_Guard(original if runs else None, item, device) for item in graph.inputs]
        self._call = CallMatcher(find_called_function(original), json.loads(graph.call))
        self._results = Results(original, json.loads(graph.tree), names or {})
        self._watched = watch_modules(original, self._results.changing)
        self._graphs, self._names = (graph, rewritten), dict(names or {})
        self._kernels = [(region, path.read_bytes()) for region, path in parts]
        self._run = deploy(rewritten or graph, parts, device) if runs else None
        measured_us = self._find_measured_us()
        self._replays = self._make_replays(measured_us) if measured_us else None
        self._traceable = self._make_traceable() if self._run is not None else None
        self._complete = True

    def _watch_as_before(self, forms: Sequence[ModuleForm]) -> None:
        """Expect what the module was like when it was exported, which may be another than it is by now."""
        self._watched = watch_as_before(self.original, forms)
        self._traceable = self._make_traceable() if self._run is not None else None

    def _find_measured_us(self) -> float:
        """Return how long a call was measured to run on a GPU; 0 where none was."""
        best = self.summary.best if self.summary is not None else None
        return (
            best.median_us
            if best is not None and self._run is not None and self.device_type == "cuda"
            else 0.0
        )

    def _make_replays(self, measured_us: float = 0.0) -> GraphReplays:
        assert self._run is not None
        updated = list_updated(self._graphs[1] or self._graphs[0])
        return GraphReplays(self._run, updated, device_us=measured_us)

    def _make_traceable(self) -> Traceable | None:
        graph, rewritten = self._graphs
        try:
            return Traceable(
                self.original, graph, rewritten or graph, self._kernels, self.device_type, self._watched
            )
        except TaskError:
            return None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            result = self._traceable.call(args, kwargs) if self._traceable is not None else None
            return result[0] if result is not None else self.original(*args, **kwargs)
        matched = self._match_call(args, kwargs)
        if isinstance(matched, str):
            return self._answer_otherwise(args, kwargs, matched)
        inputs, objects = matched
        self.fast_calls += 1
        run = self._replays or self._run
        assert run is not None
        return self._results.build(run(inputs), objects)

    @property
    def cuda_graph(self) -> bool:
        """Tell whether calls may be replays of a CUDA graph: on a GPU, unless the first calls show that launching them keeps no device waiting.
        It can be set; a copy decides anew.
        """
        return self._replays is not None

    @cuda_graph.setter
    def cuda_graph(self, wanted: bool) -> None:
        if wanted and (self._run is None or self.device_type != "cuda"):
            raise TaskError("there are no kernels on a GPU to capture")
        self._replays = self._make_replays() if wanted else None

    @property
    def graph(self) -> Graph:
        """The graph that the module was exported to."""
        return self._graphs[0]

    def gather_inputs(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the graph's inputs, in order, for a call with these tensors: they, and the module's own."""
        waiting = iter(tensors)
        inputs = [next(waiting) if guard.given else guard.lookup() for guard in self._guards]
        return [tensor for tensor in inputs if tensor is not None]

    def run_kernels(self, inputs: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        """Run the kernels on the graph's inputs; return its output leaves. Buffers among the inputs are updated in place."""
        assert self._run is not None, self._idle
        return self._run(inputs)

    def _match_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Matched | str:
        """The graph's inputs for this call and the objects that it may change, or why the candidate does not apply."""
        if self._run is None:
            return self._idle
        if surroundings := find_surroundings(self.device_type):
            return surroundings
        if change := self._find_change():
            return change
        if attribute := self._results.differs():
            return f"{attribute} is in another form than when it was exported"
        matched = self._call.match(args, kwargs)
        if matched is None:
            return "the arguments nest in another way, or a constant argument has another value"
        waiting, gradients = iter(matched[0]), torch.is_grad_enabled()
        inputs: list[Any] = []
        for guard in self._guards:
            tensor = next(waiting) if guard.given else guard.lookup()
            reason = guard.refuses(tensor, gradients)
            if reason:
                return reason
            inputs.append(tensor)
        return inputs, matched[1]

    def _find_change(self) -> str:
        """Return what of the module, apart from its tensors, is another than when it was exported; empty where nothing is."""
        for watched in self._watched:
            if change := watched.find_change():
                return change
        return ""

    def rebind(self, module: torch.nn.Module, call: str = "") -> OptimizedModule:
        """Return the same kernels over an equal layer, with its weights. The caller knows that the layers are equal. `call`: how its
        arguments nest (`Graph.call`), where another part of them is its own.

        Raises TaskError where the layer's tensors have other names.
        """
        saved = self.save()
        graph = saved.graph.model_copy(update={"call": call or saved.graph.call})
        return saved._replace(original=module, graph=graph, forms=()).revive()

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles take the kernels along. They run where the processor is the same; elsewhere the original runs."""
        return SavedModule.revive, (self.save(),)

    def save(self) -> SavedModule:
        """Return all that it is made of, its kernels as bytes."""
        return SavedModule(
            self.original, *self._graphs, self._kernels, self.summary, self.device_type, self._names, find_processor(self.device_type),
            tuple(watched.form for watched in self._watched),
        )  # fmt: skip

    def report(self) -> str:
        """Return what was measured: speedup, its baseline and 95% interval, time of a call, share of the physical limit, hardware
        and labels. A line follows for each part of the module that was left as it is, with the reason.
        """
        lines_left = self.summary.left if self.summary is not None else ()
        return "\n".join([self._claim(), *(f"  left as it is: {line}" for line in lines_left)])

    def _claim(self) -> str:
        best = self.summary.best if self.summary is not None else None
        if self.summary is None or best is None or self._run is None:
            why = self.summary.reason if self.summary is not None else ""
            return f"no faster version: the original runs{f' ({why})' if why else ''}"
        ratio = best.speedup
        return (
            f"{describe_speed(ratio)} over {ratio.baseline} (95% {ratio.low:.2f}-{ratio.high:.2f}), "
            f"{best.median_us:.0f} us, {best.limit_share:.0%} of the physical limit, "
            f"on {self.summary.hardware or 'this machine'}; {', '.join(best.labels)}"
        )

    def explain(self) -> str:
        """Describe what runs here: the kernels and what each stands for, the calls that take them, and who answered so far."""
        graph = self._graphs[0]
        lines = [self._claim()]
        for region, _ in self._kernels:
            ops = ", ".join(
                graph.by_name[n].op.removeprefix("aten.") for n in region.nodes if n in graph.by_name
            )
            lines.append(f"  kernel in place of {ops}")
        if self._run is not None:
            arguments = [
                f"{i.target} {i.spec.dtype}{list(i.spec.shape)}" for i in graph.inputs if i.role == "input"
            ]
            lines.append(
                f"  for calls with {', '.join(arguments)} on {self.device_type}, without gradients or autocast"
            )
            if self._replays is not None:
                lines.append(f"  replays of a CUDA graph: {self._replays.describe()}")
            lines.append(f"  under torch.compile: {'operators' if self._traceable else 'the original runs'}")
        last = f", the last because {self.last_fallback}" if self.last_fallback else ""
        lines.append(f"  so far: {self.fast_calls} calls by kernels, {self.fallbacks} by the original{last}")
        return "\n".join(lines)

    def export(self, *args: Any, **kwargs: Any) -> torch.export.ExportedProgram:
        """Export it with `torch.export` for calls like this one: the kernels are operators in the program. Raises TaskError for a
        call that is not like the example, and where there is nothing faster than the original.
        """
        if self._run is None:
            raise TaskError(f"there are no kernels to export: {self._idle}")
        graph, rewritten = self._graphs
        module = Exportable(
            self.original, graph, rewritten or graph, self._kernels, self.device_type, self._names
        )
        with torch.no_grad():
            return torch.export.export(module, args, kwargs, strict=False)

    def extra_repr(self) -> str:
        return self._claim()

    def _repr_html_(self) -> str:
        """Return the short form of the report, which notebooks show."""
        from ..pages.short_form import render_short, render_summary

        calls = f"{counted(self.fast_calls, 'call')} by the kernels, {self.fallbacks} by the original"
        further = [
            calls,
            f"the original answered last because {self.last_fallback}" if self.last_fallback else "",
        ]
        if self.summary is None or self._run is None:
            reason = self._idle if self.summary is not None else ""
            return render_short(
                type(self.original).__name__, "the original runs", [self._claim(), reason, *further]
            )
        return render_summary(self.summary, further)


class SavedModule(NamedTuple):
    """All that an `OptimizedModule` is made of, as copies and pickles take it along."""

    original: torch.nn.Module
    graph: Graph
    rewritten: Graph | None
    kernels: Sequence[tuple[Region, bytes]]
    summary: RunSummary | None
    device: str
    names: Mapping[str, Any]
    processor: str
    forms: tuple[ModuleForm, ...] = ()  # of its submodules when it was exported; empty: as they are

    @property
    def fits_here(self) -> bool:
        """True where the kernels were built for this processor."""
        return self.processor == find_processor(self.device)

    def _find_mismatch(self) -> str:
        """Return why its kernels cannot run; empty where they can."""
        if not self.fits_here:
            return "its kernels were built for another processor: optimize it again here"
        if self.forms and not has_same_parts(self.original, self.forms):
            return "it had other submodules when it was exported: optimize it again"
        return ""

    def revive(self, make: Callable[..., OptimizedModule] = OptimizedModule) -> OptimizedModule:
        """Make the module again, its kernels loaded from files of its own. `make`: its class."""
        if idle := self._find_mismatch():
            module = make(self.original, self.graph, [], self.summary, self.device, None, self.names)
            module._idle = idle
            return module
        with TemporaryDirectory(prefix="warpsmith-") as folder:
            parts = []
            for number, (region, library) in enumerate(self.kernels):
                path = Path(folder) / f"unit{number}.so"
                path.write_bytes(library)
                parts.append((region, path))
            module = make(
                self.original, self.graph, parts, self.summary, self.device, self.rewritten, self.names
            )
        if self.forms:
            module._watch_as_before(self.forms)
        return module


class _Guard:
    """The conditions that one input must meet for the candidate to apply, and where to find it if it is the module's."""

    def __init__(self, original: torch.nn.Module | None, item: GraphInput, device: str) -> None:
        """`original`: None where nothing will run."""
        self.device = device
        self.name, self.given = item.target, item.role == "input"
        self.shape, self.dtype = torch.Size(item.spec.shape), torch_dtype(item.spec.dtype)
        axes = enumerate(zip(item.spec.shape, item.spec.stride, strict=True))
        self.expanded = [axis for axis, (n, s) in axes if s == 0 and n > 1]
        # Looked up at each call, since a caller may put another parameter in its place.
        self.lookup: Callable[[], torch.Tensor | None] = lambda: None
        if item.data:
            literal = literal_tensor(item).to(device)
            self.lookup = lambda: literal
        elif not self.given and original is not None:
            self.lookup = _lookup(original, item)

    def refuses(self, tensor: torch.Tensor | None, gradients: bool) -> str:
        kind = type(tensor)
        if tensor is None or (kind is not torch.Tensor and kind is not torch.nn.Parameter):
            return f"{self.name} is a {kind.__name__}"
        if tensor.shape != self.shape or tensor.dtype is not self.dtype or tensor.device.type != self.device:
            description = f"{tensor.dtype}{list(tensor.shape)} on {tensor.device}"
            return f"{self.name} is {description}, not {self.dtype}{list(self.shape)} on {self.device}"
        if gradients and tensor.requires_grad:
            return f"{self.name} needs gradients; call under torch.no_grad()"
        if self.expanded and any(tensor.stride(axis) != 0 for axis in self.expanded):
            return f"{self.name} is not expanded as it was when exported"
        return ""


def _lookup(original: torch.nn.Module, item: GraphInput) -> Callable[[], torch.Tensor | None]:
    """A quick way to the module's tensor of that name: straight from the table that holds it."""
    owner_name, _, name = item.target.rpartition(".")
    if find_tensor(original, item.target) is None:
        raise TaskError(f"the module has no {item.role} {item.target!r}; it is not the one that was exported")
    try:
        owner = original.get_submodule(owner_name)
    except AttributeError:  # an entry of a list or dict attribute
        return partial(find_tensor, original, item.target)
    for table in (owner._parameters, owner._buffers, owner.__dict__):
        if name in table:
            return partial(table.get, name)
    return partial(find_tensor, original, item.target)


def find_processor(device: str) -> str:
    """Name the processor of this device that kernels are built for."""
    if device == "cpu":
        return make_processor_key()
    return ".".join(map(str, torch.cuda.get_device_capability())) if torch.cuda.is_available() else ""


__all__ = ["OptimizedModule", "as_module"]
