"""The backend "warpsmith" of `torch.compile`: verified kernels where the archive has them for this machine, inductor for the rest.

In: a graph of dynamo and its inputs. Out: a compiled function. Nothing is searched unless the options ask for it. What cannot be
taken over, for whatever reason, is inductor's as if this backend were not there; the reason is logged, and kept for `explain`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..api import device_of, make_target, optimize
from ..archive.offers import list_offers
from ..archive.store import Archive
from ..budgets import parse_budget
from ..config import Config
from ..errors import TaskError, UsageError, WarpsmithError
from ..machine import describe
from ..places import archive_place
from ..records import Environment
from ..runtime.fx_graphs import to_fx
from .conversion import explain_difference, restore_constants, to_graph
from .explanation import Explanation, GraphReport
from .steps import DIRECTIONS, CompiledLater, compile_step, need_gradients
from .substitution import Offer, Substitution, substitute

log = logging.getLogger("warpsmith.compile")
OPTIONS = {
    "archive": "a path or URL of the archive; that of the settings when left out",
    "search": 'a time for each graph, such as "2m", to search for kernels that the archive does not have',
    "gradients": "True: kernels also where gradients are needed; backward the operations of ATen run anew",
    "training": 'True: where gradients are needed, kernels for forward with what it saves, and for backward; or "forward", "backward"',
    "next": 'the backend for the rest, "inductor" when left out',
}


@dataclass(frozen=True)
class Options:
    """The options of the backend; `settings` are the next backend's own."""

    archive: str | Path | None = None
    search: Any = None
    gradients: bool = False
    training: bool | str = False
    next: str = "inductor"
    settings: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def parse(cls, options: Mapping[str, Any] | None) -> Options:
        """Raises UsageError for a wrong value."""
        values = dict(options or {})
        named = {name: values.pop(name) for name in OPTIONS if name in values}
        if named.get("search") is not None:
            parse_budget(named["search"])
        if not isinstance(named.get("gradients", False), bool):
            raise UsageError("options: gradients is True or False")
        if named.get("training", False) not in (False, True, *DIRECTIONS):
            raise UsageError('options: training is True, False, "forward" or "backward"')
        return cls(**named, settings=tuple(values.items()))

    @property
    def directions(self) -> tuple[str, ...]:
        """Which halves of a training step get kernels."""
        return DIRECTIONS if self.training is True else tuple(d for d in DIRECTIONS if d == self.training)

    def config(self, settings: Config | None = None) -> Config:
        """Make the settings from these, or from those of the user. Raises UsageError for an archive that is named and not there."""
        config = settings or Config.load()
        if self.archive is None:
            return config
        path = archive_place(self.archive)
        if isinstance(path, Path) and not path.is_file() and self.search is None:
            raise UsageError(f"there is no archive at {path}: name another, or leave the option out")
        return config.model_copy(update={"archive": path})


class Backend:
    """A backend with its options; it remembers what became of each graph."""

    def __init__(
        self,
        options: Mapping[str, Any] | None = None,
        mode: str | None = None,
        config: Config | None = None,
    ) -> None:
        """`config`: settings; read from `warpsmith.toml` and the environment for each graph when None."""
        self.options, self.mode, self.config = Options.parse(options), mode, config
        self.reports: list[GraphReport] = []

    def explain(self) -> Explanation:
        """Tell what the graphs that were compiled so far use, and why not."""
        return Explanation(graphs=tuple(self.reports))

    def __call__(self, module: torch.fx.GraphModule, inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
        if self.options.training and need_gradients(inputs):
            return self._compile_step(module, inputs)
        return self._compile_rest(self._put_kernels(module, inputs, self._why_not(inputs)), inputs)

    def _compile_step(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compile a training step in its halves. Without a kernel in them the next backend gets the graph uncut, with torch's fused attention."""
        earlier = len(self.reports)
        compiled = compile_step(module, inputs, self._compile_direction)
        reports = {report.direction: report for report in self.reports[earlier:]}
        if reports.keys() != set(DIRECTIONS) or any(report.kernels for report in reports.values()):
            return compiled
        return self._compile_rest(module, inputs)

    def _put_kernels(
        self, module: torch.fx.GraphModule, inputs: Sequence[Any], refusal: str = "", direction: str = ""
    ) -> torch.fx.GraphModule:
        """Return the graph with kernels in it, or as it is where none fits or it is refused; `reports` has why."""
        substituted, report = self._substitute(module, inputs, refusal)
        self.reports.append(report.model_copy(update={"direction": direction}))
        for line in report.lines():
            log.info(line)
        return substituted or module

    def _compile_direction(
        self, direction: str, module: torch.fx.GraphModule, inputs: Sequence[Any]
    ) -> Callable[..., Any]:
        """Compile the graph of forward or of backward. The rest is compiled at the first call, outside of torch's tracing."""
        unwanted = (
            "" if direction in self.options.directions else f"kernels are for {self.options.training} alone"
        )
        with _disable_current_modes(), torch.no_grad():
            changed = self._put_kernels(module, inputs, unwanted or self._why_not(inputs), direction)
        return CompiledLater(changed, self._compile_rest)

    def _substitute(
        self, module: torch.fx.GraphModule, inputs: Sequence[Any], refusal: str
    ) -> tuple[torch.fx.GraphModule | None, GraphReport]:
        """The module with kernels in it, if there are any for it."""
        if refusal:
            return None, GraphReport(reason=refusal)
        try:
            return self._use_archive(module, inputs)
        except TaskError as error:
            return None, GraphReport(reason=str(error))
        except UsageError:
            raise
        except WarpsmithError as error:
            log.warning(str(error))
            return None, GraphReport(reason=str(error))
        except Exception as error:  # noqa: BLE001 - a fault of ours is no reason for the user's model not to run
            said = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            log.warning("the graph could not be looked at: %s", said)
            return None, GraphReport(reason=f"it could not be looked at: {said}")

    def _why_not(self, inputs: Sequence[Any]) -> str:
        tensors = [t for t in inputs if isinstance(t, torch.Tensor)]
        devices = {t.device.type for t in tensors}
        if len(devices) != 1 or not devices <= {"cpu", "cuda"}:
            return f"its tensors are on {' and '.join(sorted(devices)) or 'no device'}"
        if need_gradients(inputs) and not self.options.gradients:
            return "gradients are needed (options={'gradients': True} uses kernels all the same)"
        if torch.is_autocast_enabled(next(iter(devices))):
            return "autocast is active"
        return ""

    def _use_archive(
        self, module: torch.fx.GraphModule, inputs: Sequence[Any]
    ) -> tuple[torch.fx.GraphModule | None, GraphReport]:
        config, graph = self.options.config(self.config), to_graph(module, inputs)
        device = next(t.device.type for t in inputs)
        target = make_target(device, config)
        environment = describe(config.compiler, device_of(device))
        offers = find_offers(config, target.name, environment)
        substitution, search = substitute(graph, offers, target), ""
        if self.options.search is not None and substitution.covered < len(graph.nodes):
            search = self._search(module, inputs, config)
            offers = find_offers(config, target.name, environment)
            substitution = substitute(graph, offers, target)
        report = make_report(substitution, len(graph.nodes), len(offers), search)
        if not substitution.replacements:
            return None, report
        for aliases in (False, True):
            replaced = to_fx(graph, substitution.replacements, device, aliases=aliases)
            changed = restore_constants(replaced, graph, module)
            difference = explain_difference(module, changed, inputs)
            if not difference:
                return changed, report
        return None, GraphReport(operations=len(graph.nodes), reason=difference, search=search)

    def _search(self, module: torch.fx.GraphModule, inputs: Sequence[Any], config: Config) -> str:
        """Search for kernels of the whole graph; the archive keeps them. Return what came of it."""
        try:
            with torch._guards.tracing(None), torch.no_grad():
                copies = tuple(t.detach().clone() for t in inputs)
                result = optimize(module, copies, budget=self.options.search, config=config, progress=False)
        except (TaskError, UsageError) as error:
            return str(error)
        return result.report().partition("\n")[0]

    def _compile_rest(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        from torch._dynamo.backends.registry import lookup_backend

        settings = dict(self.options.settings)
        compiler: Any = lookup_backend(self.options.next)
        if self.options.next != "inductor":
            return compiler(module, inputs, **({"options": settings} if settings else {}))
        if self.mode and self.mode != "default":
            settings = {**torch._inductor.list_mode_options(self.mode), **settings}
        return compiler(module, inputs, **({"config_patches": settings} if settings else {}))


def warpsmith_backend(
    module: torch.fx.GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, mode: str | None = None
) -> Callable[..., Any]:  # fmt: skip
    """Compile one graph: what `torch.compile(backend="warpsmith")` finds by the entry point `torch_dynamo_backends`.

    `options`: see `OPTIONS`; others are inductor's.
    """
    return Backend(options, mode)(module, inputs)


def find_offers(config: Config, target: str, environment: Environment) -> list[Offer]:
    """Read the winners that hold here; none where there is no archive yet. Raises ArchiveError."""
    if isinstance(config.archive, Path) and not config.archive.is_file():
        return []
    archive = Archive(config.archive)
    try:
        entries = list_offers(archive, target, environment)
        tasks = {e.candidate.task_id: archive.task(e.candidate.task_id) for e in entries}
    finally:
        archive.close()
    return [Offer(e, task) for e in entries if (task := tasks[e.candidate.task_id]) is not None]


def make_report(substitution: Substitution, operations: int, offers: int, search: str) -> GraphReport:
    """Make the report of a graph."""
    reason = ""
    if not substitution.replacements:
        reason = (
            f"none of {offers} winners of the archive that hold here fits it"
            if offers
            else "the archive has no winner that holds here"
        )
        if substitution.refusals:
            reason += "; " + "; ".join(f"{r.task}: {r.reason}" for r in substitution.refusals[:3])
    return GraphReport(
        operations=operations, covered=substitution.covered, kernels=substitution.kernels,
        refusals=substitution.refusals, offers=offers, reason=reason, search=search,
    )  # fmt: skip


__all__ = ["OPTIONS", "Backend", "warpsmith_backend"]
