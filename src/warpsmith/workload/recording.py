"""What a capture saw: regions with their time, limit and predicted gain, as a table, as records, and as tasks.

In: the recorded groups of calls and the model. Out: `Recording`. Limits need each region's graph, so they are worked out when they are
first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from .. import machine
from ..config import Config
from ..errors import TaskError, UsageError
from ..judge.roofline.limits import VIEWS, limit
from ..judge.roofline.peaks import Peaks, measure_peaks
from ..records import Graph, Record, Task
from ..runtime.graph_replays import MOST_COPIED_BYTES
from ..tasks.export import export_used
from ..tasks.memory import task_from_module
from ..tasks.module_state import ModuleState
from ..tasks.saved import save_task
from .recorder import CallGroup, Recorder
from .regions import CALL_S, LEAST_SHARE, LayerRegion, choose_regions, predict_saving_s
from .table import describe_workload

LARGEST_REGION = 64  # submodules: what holds more is searched by its parts
GRAPHED = ("cuda",)  # kinds of devices whose launches can be captured
WHOLE_SHARE = 0.5  # of the run, from which calls are captured as a whole
INNER_SHARE = 0.8  # of what the model itself takes, from which a part is captured in its place


class Workload(Record):
    """A captured workload: `warpsmith capture --json` writes it."""

    model: str  # the class's name
    device: str
    calls: int  # of the model itself
    seconds: float  # that one run spends in them
    regions: tuple[LayerRegion, ...]
    notes: tuple[str, ...] = ()

    @property
    def chosen(self) -> tuple[LayerRegion, ...]:
        """Return the regions to optimize together, the most promising first."""
        return tuple(r for r in self.regions if r.chosen)

    @property
    def gain(self) -> float:
        """Return the predicted speedup of the model from all chosen regions."""
        saved = sum(r.chosen_saving_s for r in self.chosen) / self.seconds if self.seconds else 0.0
        return 1 / (1 - min(saved, 0.99))


@dataclass(frozen=True)
class Example:
    """A layer as it ran: its module, the modes of its submodules, and the arguments of one call."""

    module: torch.nn.Module
    modes: list[bool]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @contextmanager
    def modes_restored(self) -> Iterator[None]:
        """Put the module into the modes that it ran in, for the time being."""
        parts = list(self.module.modules())
        before = [part.training for part in parts]
        try:
            _set_modes(parts, self.modes)
            yield
        finally:
            _set_modes(parts, before)


class Recording:
    """What a capture saw. It prints as a table; `workload` has the same as a record.

    Attributes:
        model: The module that ran.
        notes: What a reader should know of how it was captured.
    """

    def __init__(self, model: torch.nn.Module | None, recorder: Recorder, config: Config) -> None:
        self._model, self._recorder, self._config = model, recorder, config
        self.notes: list[str] = []
        self.progress: Callable[[str], None] = lambda text: None  # hears of regions while they are looked at

    def set_model(self, model: torch.nn.Module) -> None:
        """Name the module that ran; the capture is over."""
        self._model = model

    @property
    def has_calls(self) -> bool:
        """Return whether a call of the model, or of a part of it, came to its end."""
        return bool(self._kinds)

    @property
    def model(self) -> torch.nn.Module:
        """Raises UsageError where nothing has run yet."""
        if self._model is None:
            raise UsageError(
                "nothing was captured: the model runs inside the with block, and is read after it"
            )
        return self._model

    @cached_property
    def workload(self) -> Workload:
        """Everything that ran, with limits and predicted gains. Raises ToolchainError, JudgeError where peaks cannot be measured."""
        total_s, calls = self._measure_whole()
        regions = self._described
        graphs = {r.key: self._export(r) for r in regions if not r.reason}
        peaks = self._measure_peaks() if any(isinstance(g, Graph) for g in graphs.values()) else None
        judged = [_with_limit(r, graphs.get(r.key), peaks, CALL_S[self.device]) for r in regions]
        return Workload(
            model=type(self.model).__name__, device=self.device, calls=calls, seconds=total_s,
            regions=choose_regions(judged), notes=tuple(self.notes),
        )  # fmt: skip

    @property
    def regions(self) -> tuple[LayerRegion, ...]:
        """Return all that ran, the most promising first."""
        return self.workload.regions

    @property
    def chosen(self) -> tuple[LayerRegion, ...]:
        """Return the regions to optimize together, the most promising first; they do not overlap."""
        return self.workload.chosen

    @property
    def device(self) -> str:
        """Return the kind of device that the model is on."""
        tensors = [*self.model.parameters(), *self.model.buffers()]
        return "cuda" if any(t.is_cuda for t in tensors) else "cpu"

    def example(self, region: LayerRegion) -> Example:
        """Return the first layer of a region, with the arguments of one of its calls. Raises UsageError for one that is no task."""
        if region.reason or region.key not in self._kinds:
            raise UsageError(f"{region.name} is no task: {region.reason or 'it is of another capture'}")
        return self._find_example(region)

    def _find_example(self, region: LayerRegion) -> Example:
        first = (region.chosen or region.paths)[0]
        group = next(g for g in self._kinds[region.key] if self._paths[id(g.module)] == first)
        args, kwargs = self._recorder.examples[self._recorder.kinds[id(group.module)], group.form.key]
        return Example(group.module, group.modes, args, kwargs)

    def find_whole_calls(self) -> list[tuple[LayerRegion, Example]]:
        """On a GPU, find calls that take most of the time, are alike, need no gradients, and return no more than can be copied, each with an example;
        what is best to capture as one CUDA graph comes first. A part of the model that takes nearly as long stands before the model itself, whose methods, as `generate`, call
        the model, and not what stands in its place.
        """
        if self.device not in GRAPHED:
            return []
        longest = [
            region for region in self._described
            if len(region.paths) == 1 and region.share >= WHOLE_SHARE and not region.training and self._is_replayable(region)
        ]  # fmt: skip
        nearly_all = INNER_SHARE * max((r.share for r in longest), default=0.0)
        longest.sort(key=lambda r: (r.share < nearly_all, r.paths == ("",), r.paths[0].count("."), -r.share))
        return [(region, self._find_example(region)) for region in longest]

    def _is_replayable(self, region: LayerRegion) -> bool:
        first = self._kinds[region.key][0]
        return not first.form.trouble and not first.trouble and first.result_bytes <= MOST_COPIED_BYTES

    def tasks(self, folder: Path | None = None) -> list[tuple[LayerRegion, Task]]:
        """Export each chosen region as a task, once for all equal layers; its files go to the folder, or the cache's exports."""
        return [(region, self._make_task(region, folder)) for region in self.chosen]

    def write(self, folder: str | Path) -> list[Path]:
        """Write a task file for each chosen region, which `warpsmith optimize` takes, and what belongs to it."""
        return [save_task(task, Path(folder)) for _, task in self.tasks(Path(folder))]

    def __str__(self) -> str:
        return describe_workload(self.workload)

    @cached_property
    def _described(self) -> list[LayerRegion]:
        """All that ran, without limits and predictions."""
        total_s, _ = self._measure_whole()
        return [self._describe(key, groups, total_s) for key, groups in self._kinds.items()]

    @cached_property
    def _paths(self) -> dict[int, str]:
        return {id(part): path for path, part in self.model.named_modules()}

    @cached_property
    def _kinds(self) -> dict[str, list[CallGroup]]:
        """The groups of equal calls of equal layers, in the order of the model's submodules."""
        kinds: dict[str, list[CallGroup]] = {}
        order = {number: index for index, number in enumerate(self._paths)}
        groups = [g for g in self._recorder.groups.values() if id(g.module) in order and g.times_s]
        for group in sorted(groups, key=lambda g: order[id(g.module)]):
            kinds.setdefault(f"{self._recorder.kinds[id(group.module)]}-{group.form.key}", []).append(group)
        return kinds

    def _measure_whole(self) -> tuple[float, int]:
        """Seconds and number of the calls that came from no other module: the model's, and those of parts that the run calls itself."""
        outermost = [g for groups in self._kinds.values() for g in groups if g.outermost_calls]
        seconds = sum(_estimate_s([g]) * g.outermost_calls / len(g.times_s) for g in outermost)
        return seconds, sum(g.outermost_calls for g in outermost)

    def _describe(self, key: str, groups: list[CallGroup], total_s: float) -> LayerRegion:
        first, seconds = groups[0], _estimate_s(groups)
        share = seconds / total_s if total_s else 0.0
        reason = first.form.trouble or first.trouble
        if not reason and sum(1 for _ in first.module.modules()) > LARGEST_REGION:
            reason = f"it holds more than {LARGEST_REGION} submodules: its parts are tasks"
        if not reason and share < LEAST_SHARE:
            reason = f"less than {LEAST_SHARE:.0%} of the time"
        return LayerRegion(
            kind=type(first.module).__name__, paths=tuple(self._paths[id(g.module)] for g in groups),
            inputs=first.form.inputs, outputs=first.outputs, training=first.form.training,
            gradients=first.form.gradients, autocast=first.form.autocast,
            calls=sum(len(g.times_s) for g in groups), seconds=seconds, share=share, reason=reason, key=key,
        )  # fmt: skip

    def _export(self, region: LayerRegion) -> Graph | str:
        """The graph of a region, or why there is none."""
        self.progress(f"looking at {region.name}")
        try:
            return export_layer(self.example(region))
        except TaskError as error:
            return str(error)

    def _make_task(self, region: LayerRegion, folder: Path | None) -> Task:
        example = self.example(region)
        with example.modes_restored():
            return task_from_module(
                example.module, example.args, example.kwargs, folder or self._config.cache / "exports"
            )

    def _measure_peaks(self) -> Peaks:
        config = self._config
        return measure_peaks(
            config.cache, config.threads or machine.threads(), compiler=config.compiler, device=self.device,
            progress=self.progress,
        )  # fmt: skip


def export_layer(example: Example, module: torch.nn.Module | None = None) -> Graph:
    """Export a layer, or an equal one, at the shapes of the example. Raises TaskError."""
    layer = module or example.module
    state = ModuleState(layer)
    try:
        with example.modes_restored():
            filename = type(layer).forward.__code__.co_filename
            return export_used(layer, example.args, example.kwargs, filename)[1]
    finally:
        state.restore()


def _with_limit(
    region: LayerRegion, graph: Graph | str | None, peaks: Peaks | None, call_s: float
) -> LayerRegion:
    """Add the limit of a call, and what a search may save of all calls, each of which costs the host `call_s` again."""
    if isinstance(graph, str):
        return region.model_copy(update={"reason": graph})
    if graph is None or peaks is None:
        return region
    floor = limit(graph, peaks)
    operations = sum(node.op.split(".")[1] not in VIEWS for node in graph.nodes)
    saving_s = predict_saving_s(
        region.seconds, floor.seconds * region.calls, operations, call_s * region.calls
    )
    return region.model_copy(update={"limit": floor, "saving_s": saving_s})


def _estimate_s(groups: Iterable[CallGroup]) -> float:
    """Seconds of all calls, from the fastest one: what the first ones make, and what others take of the machine, does not count.
    Calls that are one kind whatever their shapes are added up.
    """
    groups = list(groups)
    times_s = [t for g in groups for t in g.times_s]
    if any(g.form.trouble for g in groups):
        return sum(times_s)
    return min(times_s) * len(times_s) if times_s else 0.0


def _set_modes(parts: list[torch.nn.Module], modes: Iterable[bool]) -> None:
    for part, mode in zip(parts, modes, strict=False):
        part.training = mode
