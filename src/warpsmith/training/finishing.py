"""From the winners of both halves to a module: the step checked, measured beside eager mode and torch.compile, and pruned.

In: a module, its step, the searches. Out: a `TrainingModule`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from ..api import ModuleSearch
from ..compiling.steps import DIRECTIONS
from ..composition.outputs import collect_outputs
from ..composition.parity import Parity, find_truth
from ..composition.pruning import ORIGINAL, Pruned, prune
from ..composition.side_by_side import Blocks, measure_side_by_side
from ..config import Config
from ..progress import Observer
from ..records import Ratio, RunSummary
from ..tasks.module_state import keep_buffers
from .step import TrainingStep
from .trained_module import StepResult, TrainingModule, make_settings

EAGER, COMPILE = "eager", "torch.compile"
MEASURE_SHARE, MEASURE_LEAST_S = 0.1, 10.0  # of the time to search, for each measurement of the step
WARM_CALLS = 3  # torch.compile compiles backward in the first, and may look again at the second
NEXT = {EAGER: "eager", COMPILE: "inductor"}  # what runs the rest: what is faster without kernels


@dataclass
class _Variants:
    """Modules with kernels in some halves of their step, by the halves."""

    original: torch.nn.Module
    config: Config
    next_backend: str
    modules: dict[tuple[str, ...], TrainingModule] = field(default_factory=dict)

    def find(self, names: Sequence[str]) -> TrainingModule:
        directions = tuple(d for d in DIRECTIONS if d in names)
        if directions not in self.modules:
            settings = make_settings(self.config, directions, self.next_backend)
            self.modules[directions] = TrainingModule(self.original, settings)
        return self.modules[directions]

    def explain_idle(self, direction: str) -> str:
        """Return why a half runs no kernel, after a call; empty where it runs one."""
        modules = [module for directions, module in self.modules.items() if direction in directions]
        graphs = [g for module in modules for g in module.explain().graphs if g.direction == direction]
        if any(g.kernels for g in graphs):
            return ""
        return next((g.reason for g in graphs if g.reason), "the step was cut in other graphs")


def finish(
    search: ModuleSearch, step: TrainingStep, summaries: Mapping[str, RunSummary], shown: Observer
) -> TrainingModule:
    """Check, measure and prune. The original's buffers are the same before each of these, and afterwards."""
    seconds = max(MEASURE_LEAST_S, MEASURE_SHARE * (search.limits.seconds or 0.0))
    shown.stage("measuring the step of the original, eager and compiled")
    with keep_buffers(search.original):
        baseline, rival = measure_rivals(search.original, step, seconds)
    name = COMPILE if rival is not None and rival.low > 1 else EAGER
    variants = _Variants(search.original, search.config, NEXT[name])
    pruned = _prune(search, step, variants, summaries, (name, baseline[name]), seconds, shown)
    speedup = pruned.speedup.model_copy(update={"baseline": name}) if pruned.speedup is not None else None
    dropped = {
        d: pruned.dropped.get(d, "the search won nothing") for d in DIRECTIONS if d not in pruned.names
    }
    directions = tuple(d for d in DIRECTIONS if d in pruned.names)
    result = StepResult(
        directions=directions, speedup=speedup, rival=rival, parity=pruned.parity, dropped=dropped, summaries=dict(summaries)
    )  # fmt: skip
    module = TrainingModule(search.original, make_settings(search.config, directions, NEXT[name]), result)
    shown.note(module.report().partition("\n")[0])
    return module


def measure_rivals(
    original: torch.nn.Module, step: TrainingStep, seconds: float
) -> tuple[dict[str, torch.nn.Module], Ratio | None]:
    """Return the original, eager and compiled, and the speedup of compiled over eager; None where torch cannot compile it."""
    compiled: Any = torch.compile(original, dynamic=False)
    modules: dict[str, torch.nn.Module] = {EAGER: original, COMPILE: compiled}
    try:
        warm(step, compiled)
    except Exception:  # noqa: BLE001 - whatever it is, there is no such rival
        return {EAGER: original}, None
    blocks = measure_side_by_side(
        {name: partial(partial, step, m) for name, m in modules.items()}, seconds, step.seed
    )
    return modules, blocks.compare(EAGER, COMPILE)


def warm(step: TrainingStep, module: torch.nn.Module) -> None:
    """Compile what is compiled at the first calls."""
    for _ in range(WARM_CALLS):
        step(module)


def _prune(
    search: ModuleSearch, step: TrainingStep, variants: _Variants, summaries: Mapping[str, RunSummary],
    baseline: tuple[str, torch.nn.Module], seconds: float, shown: Observer,
) -> Pruned:  # fmt: skip
    savings = {d: s for d, summary in summaries.items() if (s := predict_saving(summary)) > 0}
    if not savings:
        return Pruned((), {}, None, None)
    shown.stage("running the step for its results, with rounding at random, and in float64")
    truth = find_truth(step.collect, search.original, step.seed)
    # Some results always are chaotic: a bias before a normalisation has no gradient but noise.
    chaos = truth.list_chaos()
    hopeless = chaos[0] if 2 * len(chaos) > len(truth.native) else ""

    def check(names: Sequence[str]) -> Parity:
        shown.stage(f"comparing gradients with kernels {' and '.join(names)}")
        parity = truth.compare(collect_outputs(step.collect, variants.find(names), step.seed))
        return parity.model_copy(update={"ok": False, "detail": hopeless}) if hopeless else parity

    def measure(sets: Mapping[str, Sequence[str]]) -> Blocks:
        shown.stage(f"measuring the step beside {baseline[0]}")
        runs: dict[str, Callable[[], Callable[[], Any]]] = {ORIGINAL: partial(partial, step, baseline[1])}
        with keep_buffers(search.original):
            for label, names in sets.items():
                warm(step, variants.find(names))
                runs[label] = partial(partial, step, variants.find(names))
            return measure_side_by_side(runs, seconds, step.seed)

    return prune(savings, check, measure, variants.explain_idle)


def predict_saving(summary: RunSummary) -> float:
    """Return the microseconds that a half's winner saves over eager mode; 0 where there is none."""
    if summary.status != "win" or summary.best is None:
        return 0.0
    return max(summary.best.median_us * (summary.best.speedup_eager.median - 1), 0.0)
