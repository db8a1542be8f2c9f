"""From a user's model to a faster one: run it once and see what counts, search there, compose the winners, prove and measure the whole.

`capture` looks; `optimize_model` does it all. The searches of single layers are `api.optimize`.
"""

from __future__ import annotations

import secrets
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .api import make_target, optimize
from .budgets import parse_budget
from .config import Config
from .errors import Interrupted, JudgeError, TaskError, UsageError
from .progress import Observer, counted, duration
from .records import Budget, Ratio, Record
from .records.intervals import describe_ratio
from .watching import watching

if TYPE_CHECKING:
    import torch

    from .composition.compose import Composition, Part
    from .composition.parity import Parity
    from .composition.pruning import Pruned
    from .runtime.module import OptimizedModule
    from .workload.regions import SeenRegion
    from .workload.seen import Seen

LEAST_SEARCH_S = 20.0  # for a region, if the time suffices for more than one
CAPTURED_RUNS, CAPTURE_LEAST_S = 9, 1.0  # runs at most, and seconds after which none begins: the fastest call counts
MEASURE_SHARE, MEASURE_LEAST_S = 0.1, 10.0  # of the time, for each measurement of the whole model


@contextmanager
def capture(model: torch.nn.Module, *, config: Config | None = None) -> Iterator[Seen]:
    """See what a model does while your own code runs it: `with warpsmith.capture(model) as seen: run(model)`.

    Read `seen` after the block: `print(seen)` shows which layers ran, how long, how far from the machine's limit, and what each
    promises; `seen.chosen` are those to optimize; `seen.tasks()` and `seen.write(folder)` make tasks of them. What the block raises is
    passed on. Code under `torch.compile` runs eagerly in it.

    Args:
        model: The model that runs in the block.
        config: Settings; read from `warpsmith.toml` and the environment when None.

    Returns:
        A context manager that gives a `Seen`.

    Raises:
        UsageError: This is no module, it never ran in the block, or another capture is running.
    """
    from .workload.capturing import check_ran, record_calls

    with record_calls(model, config or Config.load()) as seen:
        yield seen
    check_ran(seen)


class ReplacedLayers(Record):
    """What became of one region: the layers, what the search gained, and why it is not in the model, where it is not."""

    name: str
    paths: tuple[str, ...]
    speedup: Ratio | None = None  # of the layer over eager; None where the search won nothing
    predicted_gain: float = 1.0  # of the whole model from these layers, by what the search measured
    in_model: bool = False
    reason: str = ""  # why it is not in the model


@dataclass(frozen=True)
class OptimizedModel:
    """The result of `optimize_model`.

    Attributes:
        model: The composed model; the original where nothing helped.
        layers: A `ReplacedLayers` for each region that was searched.
        predicted: The speedup of the whole run that the searches predict.
        speedup: The measured speedup over the original, a `Ratio` with its interval; None where nothing is replaced.
        parity: How the outputs compare with the original's, a `Parity`; None where nothing is replaced.
        seen: The capture that the regions come from.
    """

    model: torch.nn.Module
    layers: tuple[ReplacedLayers, ...]
    predicted: float
    speedup: Ratio | None
    parity: Parity | None
    seen: Seen

    def report(self) -> str:
        """Return predicted and measured gain, and a line for each region: what replaced it, or why nothing did."""
        if self.speedup is None:
            lines = [f"no faster version: the original runs (predicted {self.predicted:.2f}x)"]
        else:
            measured = describe_ratio(self.speedup)
            lines = [f"{measured} over the original, the whole run measured side by side (predicted {self.predicted:.2f}x)"]
        if self.parity is not None:
            truth = "a run in float64" if self.parity.oracle else "the original's own outputs"
            lines.append(f"  outputs: {self.parity.error:.0%} of the error budget, against {truth}")
        return "\n".join([*lines, *map(_describe_layers, self.layers)])

    def __str__(self) -> str:
        return self.report()


def optimize_model(
    model: torch.nn.Module,
    run: Callable[[torch.nn.Module], Any],
    time: str | float = "10m",
    *,
    seed: int | None = None,
    config: Config | None = None,
    observer: Observer | None = None,
    progress: bool | None = None,
) -> OptimizedModel:
    """Return a faster copy of a whole model for the user's own workload, with proof: parity and speedup of the whole run.

    Captures a run, searches the regions that promise most, puts the winners into a copy that shares the model's parameters, compares
    the run's outputs under the judge's error budgets, measures original and copy side by side, and keeps what helps together. Ctrl-C
    ends the searches and goes on with what they have.

    Args:
        model: The model, in the mode and on the device to optimize for. It stays as it is.
        run: A function that runs the model it is given as you do, several times if asked, without training it. What it returns and
            what the model answers is compared: tensors, losses, tokens.
        time: Time for all searches: `"90s"`, `"10m"`, or a number of seconds. It is divided by promise.
        seed: Seed of every random choice; drawn when None.
        config: Settings; read from `warpsmith.toml` and the environment when None.
        observer: Hears of the progress instead of the terminal.
        progress: None shows progress on a terminal and in a notebook, True always, False never.

    Returns:
        An `OptimizedModel`.

    Raises:
        UsageError: Model, run and time do not fit together.
        ToolchainError: There is no compiler, or it does not work.
        ArchiveError: The archive cannot be opened, read or written.
        JudgeError: A trusted process was lost, or the disk is full.
    """
    seconds = parse_budget(time).seconds
    if seconds is None or not callable(run):
        raise UsageError('give optimize_model a function run(model), and a time such as "10m"')
    config, seed = config or Config.load(), secrets.randbits(31) if seed is None else seed
    with watching(observer, progress) as observer:
        seen = _see(model, run, config, observer)
        make_target(seen.device, config)  # what would fail in every search fails here
        search = _Search(seen, config, seed, observer)
        search.play(seconds)
        return _finish(model, run, search, max(MEASURE_LEAST_S, MEASURE_SHARE * seconds))


def divide_time(seconds: float, savings: Sequence[float]) -> list[float]:
    """Divide the time by promise among the most promising, so many as get enough for a search; the best come first."""
    count = len(savings)
    while count > 1 and seconds * savings[count - 1] / sum(savings[:count]) < LEAST_SEARCH_S:
        count -= 1
    return [seconds * saving / sum(savings[:count]) for saving in savings[:count]]


def _see(model: torch.nn.Module, run: Callable[..., Any], config: Config, observer: Observer) -> Seen:
    from .workload.capturing import check_module

    check_module(model)
    observer.stage("running the model once, to warm up")
    state = _describe_parameters(model)
    run(model)
    if _describe_parameters(model) != state:
        raise UsageError("run(model) changes the model's parameters: give a run that does not train")
    observer.stage("capturing a few runs")
    with capture(model, config=config) as seen:
        began_s = clock.monotonic()
        for _ in range(CAPTURED_RUNS):
            run(model)
            if clock.monotonic() - began_s > CAPTURE_LEAST_S:
                break
    seen.progress = observer.stage
    if not seen.chosen:
        reasons = dict.fromkeys(r.reason for r in seen.regions if r.reason and r.share > 0.1)
        why = "; ".join(list(reasons)[:3]) or "its layers are at their limits"
        raise UsageError(f"no layer of {type(model).__name__} can be optimized: {why}")
    observer.note(str(seen))
    return seen


def _describe_parameters(model: torch.nn.Module) -> list[tuple[int, int]]:
    return [(id(p), -1 if p.is_inference() else p._version) for p in model.parameters()]


class _Search:
    """Searches the chosen regions one after another; an interrupt ends it and keeps what is done."""

    def __init__(self, seen: Seen, config: Config, seed: int, observer: Observer) -> None:
        self.seen, self.config, self.seed, self.observer = seen, config, seed, observer
        self.winners: dict[str, tuple[SeenRegion, OptimizedModule]] = {}
        self.lost: dict[str, str] = {}  # region → why nothing replaces it

    def play(self, seconds: float) -> None:
        """Time that a search leaves over goes to the next ones."""
        regions = self.seen.chosen
        shares = divide_time(seconds, [r.chosen_saving_s for r in regions])
        for region in regions[len(shares) :]:
            self.lost[region.name] = "the time did not suffice for it"
        for number, region in enumerate(regions[: len(shares)]):
            allotted_s = seconds * shares[number] / sum(shares[number:])
            self.observer.note(
                f"[{number + 1}/{len(shares)}] {region.name}: {duration(allotted_s)}, {region.share:.0%} of the run"
            )
            started_s = clock.monotonic()
            try:
                seconds -= self._search_one(region, allotted_s)
            except (KeyboardInterrupt, Interrupted):
                self.observer.note("interrupted: going on with what the searches have")
                self.lost |= {r.name: "interrupted" for r in regions[number : len(shares)]}
                return
            except (TaskError, JudgeError) as error:
                self.lost[region.name] = str(error)
                seconds -= min(allotted_s, clock.monotonic() - started_s)

    def _search_one(self, region: SeenRegion, seconds: float) -> float:
        """Search one region; return the seconds that this took of the time to search."""
        example = self.seen.example(region)
        with example.modes_restored():
            winner = optimize(
                example.module, example.args, example.kwargs, budget=Budget(evaluations=None, seconds=seconds),
                seed=self.seed, config=self.config, observer=self.observer,
            )  # fmt: skip
        summary = winner.summary
        if summary is not None and summary.status == "win" and summary.best is not None:
            self.winners[region.name] = (region, winner)
        else:
            self.lost[region.name] = (summary.reason if summary else "") or "the search won nothing"
        return min(seconds, summary.seconds_by_phase.get("search", seconds)) if summary else seconds


def _finish(
    model: torch.nn.Module, run: Callable[[torch.nn.Module], Any], search: _Search, seconds: float
) -> OptimizedModel:
    """Compose, check, measure and prune."""
    from .composition.compose import compose
    from .workload.recorder import unwrap

    seen, observer = search.seen, search.observer
    parts = [_make_part(seen, region, winner, search.lost) for region, winner in search.winners.values()]
    parts = [part for part in parts if part.paths]
    if not parts:
        return OptimizedModel(model, _list_layers(search, {}, None), 1.0, None, None, seen)
    composition = compose(unwrap(model), parts)
    try:
        pruned = _prune(model, run, composition, parts, search.seed, seconds, observer)
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted before the whole was measured: the archive holds {counted(len(parts), 'winner')}; "
            "the same call searches on from there"
        ) from None
    composition.use(pruned.kept)
    composed = composition.model if pruned.kept else model
    kept_saving = sum(p.saving_share for p in parts if p.name in pruned.kept or not pruned.kept)
    predicted = 1 / (1 - min(kept_saving, 0.99))
    layers = _list_layers(search, {p.name: p for p in parts}, pruned)
    result = OptimizedModel(composed, layers, predicted, pruned.speedup, pruned.parity, seen)
    observer.note(result.report())
    return result


def _make_part(seen: Seen, region: SeenRegion, winner: OptimizedModule, lost: dict[str, str]) -> Part:
    """The layers whose graph is the searched one's, and the saving that the search measured for them."""
    from .composition.compose import Part, list_equal_layers
    from .workload.seen import export_layer

    example, first, *others = seen.example(region), *region.chosen
    graph = winner._graphs[0]
    equal, different = list_equal_layers(
        graph, others, lambda path: export_layer(example, seen.model.get_submodule(path))
    )
    if different:
        lost[f"{region.kind} ({', '.join(different)})"] = f"its graph is not that of {first}"
    paths = (first, *equal)
    best = winner.summary.best if winner.summary is not None else None
    saved = 1 - 1 / best.speedup_eager.median if best is not None else 0.0
    return Part(region.name, winner, paths, region.share * saved * len(paths) / len(region.paths))


def _prune(
    model: torch.nn.Module, run: Callable[[torch.nn.Module], Any], composition: Composition,
    parts: Sequence[Part], seed: int, seconds: float, observer: Observer,
) -> Pruned:  # fmt: skip
    from .composition.outputs import collect_outputs
    from .composition.parity import Parity, find_truth
    from .composition.pruning import ORIGINAL, prune
    from .composition.side_by_side import Blocks, measure_side_by_side
    from .workload.recorder import unwrap

    observer.stage("running the original for its outputs, with rounding at random, and in float64")
    truth = find_truth(run, unwrap(model), seed)
    chaos = truth.find_chaos()

    def check(names: Sequence[str]) -> Parity:
        observer.stage(f"comparing the outputs with {counted(len(names), 'region')} replaced")
        composition.reset_counts()
        composition.use(names)
        outputs = collect_outputs(run, composition.model, seed)
        parity = truth.compare(outputs)
        return parity.model_copy(update={"ok": False, "detail": chaos}) if chaos else parity

    def measure(sets: Mapping[str, Sequence[str]]) -> Blocks:
        observer.stage("measuring the whole run side by side")
        variants: dict[str, Callable[[], Callable[[], None]]] = {ORIGINAL: lambda: lambda: run(model)}
        variants |= {label: lambda names=names: _make_ready(composition, run, names) for label, names in sets.items()}  # type: ignore[misc]
        return measure_side_by_side(variants, seconds, seed)

    return prune({p.name: p.saving_share for p in parts}, check, measure, composition.describe_idle)


def _make_ready(
    composition: Composition, run: Callable[[torch.nn.Module], Any], names: Sequence[str]
) -> Callable[[], None]:
    composition.use(names)
    return lambda: run(composition.model)


def _list_layers(
    search: _Search, parts: Mapping[str, Part], pruned: Pruned | None
) -> tuple[ReplacedLayers, ...]:
    """What became of each region, those in the model first."""
    layers = []
    for name, (region, winner) in search.winners.items():
        part = parts.get(name)
        reason = "" if pruned is None else pruned.dropped.get(name, "")
        best = winner.summary.best if winner.summary is not None else None
        layers.append(
            ReplacedLayers(
                name=name, paths=part.paths if part else region.chosen, speedup=best.speedup_eager if best else None,
                predicted_gain=1 / (1 - min(part.saving_share, 0.99)) if part else 1.0,
                in_model=pruned is not None and name in pruned.kept, reason=reason,
            )
        )  # fmt: skip
    layers += [ReplacedLayers(name=name, paths=(), reason=reason) for name, reason in search.lost.items()]
    return tuple(sorted(layers, key=lambda layer: not layer.in_model))


def _describe_layers(layers: ReplacedLayers) -> str:
    if layers.in_model and layers.speedup is not None:
        gain = f"predicted {layers.predicted_gain:.2f}x for the whole"
        return f"  replaced: {layers.name}: {describe_ratio(layers.speedup)} over eager, {gain}"
    return f"  left as it is: {layers.name}: {layers.reason}"
