"""The searches of a model's regions: the time divided by promise, one `api.optimize` after another.

In: a model and the function that runs it. Out: `ModelSearch`, with the winner of each region, or why it has none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..api import optimize
from ..config import Config
from ..errors import Interrupted, JudgeError, TaskError, UsageError
from ..progress import Observer, duration
from ..records import Budget
from ..runtime.module import OptimizedModule
from ..workload.capturing import check_module, check_ran, record_calls
from ..workload.recording import Recording
from ..workload.regions import LayerRegion, find_parts

LEAST_SEARCH_S = 20.0  # for a region, if the time suffices for more than one
CAPTURED_RUNS, CAPTURE_LEAST_S = (
    9,
    1.0,
)  # runs at most, and seconds after which none begins: the fastest call counts


def divide_time(seconds: float, savings: Sequence[float]) -> list[float]:
    """Divide the time by promise among the most promising, so many as get enough for a search; the best come first."""
    count = len(savings)
    while count > 1 and seconds * savings[count - 1] / sum(savings[:count]) < LEAST_SEARCH_S:
        count -= 1
    return [seconds * saving / sum(savings[:count]) for saving in savings[:count]]


def see(model: torch.nn.Module, run: Callable[..., Any], config: Config, observer: Observer) -> Recording:
    """Run the model a few times and choose the regions. Raises UsageError where there is nothing to search."""
    check_module(model)
    observer.stage("running the model once, to warm up")
    state = _describe_parameters(model)
    run(model)
    if _describe_parameters(model) != state:
        raise UsageError("run(model) changes the model's parameters: give a run that does not train")
    observer.stage("capturing a few runs")
    with record_calls(model, config) as recording:
        began_s = time.monotonic()
        for _ in range(CAPTURED_RUNS):
            run(model)
            if time.monotonic() - began_s > CAPTURE_LEAST_S:
                break
    check_ran(recording)
    recording.progress = observer.stage
    if not recording.chosen and not recording.find_whole_calls():
        reasons = dict.fromkeys(r.reason for r in recording.regions if r.reason and r.share > 0.1)
        why = "; ".join(list(reasons)[:3]) or "its layers are at their limits"
        raise UsageError(f"no layer of {type(model).__name__} can be optimized: {why}")
    observer.note(str(recording))
    return recording


def _describe_parameters(model: torch.nn.Module) -> list[tuple[int, int]]:
    return [(id(p), -1 if p.is_inference() else p._version) for p in model.parameters()]


class ModelSearch:
    """Searches the chosen regions one after another; an interrupt ends it and keeps what is done."""

    def __init__(self, recording: Recording, config: Config, seed: int, observer: Observer) -> None:
        self.recording, self.config, self.seed, self.observer = recording, config, seed, observer
        self.winners: dict[str, tuple[LayerRegion, OptimizedModule]] = {}
        self.lost: dict[str, str] = {}  # region → why nothing replaces it
        self._searched: set[str] = set()  # keys of regions

    def play(self, seconds: float) -> None:
        """Search the regions, and the parts of one that wins nothing. Time that a search leaves over goes to the next ones."""
        waiting = list(self.recording.chosen)
        while waiting and (not self._searched or seconds >= LEAST_SEARCH_S):
            shares = divide_time(seconds, [r.chosen_saving_s for r in waiting])
            region, *waiting = waiting
            number = len(self._searched) + 1
            self.observer.note(
                f"[{number}/{number + len(shares) - 1}] {region.name}: {duration(shares[0])}, {region.share:.0%} of the run"
            )
            self._searched.add(region.key)
            try:
                seconds -= self._try_one(region, shares[0])
            except (KeyboardInterrupt, Interrupted):
                self.observer.note("interrupted: going on with what the searches have")
                self.lost |= {r.name: "interrupted" for r in (region, *waiting)}
                return
            if region.name not in self.winners and seconds >= LEAST_SEARCH_S:
                parts = find_parts(self.recording.regions, region, self._searched)
                waiting = sorted([*waiting, *parts], key=lambda r: -r.chosen_saving_s)
        self.lost |= {r.name: "the time did not suffice for it" for r in waiting}

    def _try_one(self, region: LayerRegion, seconds: float) -> float:
        started_s = time.monotonic()
        try:
            return self._search_one(region, seconds)
        except (TaskError, JudgeError) as error:
            self.lost[region.name] = str(error)
            return min(seconds, time.monotonic() - started_s)

    def _search_one(self, region: LayerRegion, seconds: float) -> float:
        """Search one region; return the seconds that this took of the time to search."""
        example = self.recording.example(region)
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
