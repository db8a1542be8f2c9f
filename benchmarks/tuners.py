"""Tuners on recorded landscapes: evaluations until a setting is within 5% of the best of its source.

    python benchmarks/tuners.py results/landscapes/cpu --seeds 20 --out results/landscapes/tuners

Each tuner tunes each source of each landscape alone, two settings a round, from the technique's own values; it is told noisy
speeds, as the judge would measure them, and is judged by the true ones. Cost is counted twice: in evaluations, and in seconds as
recorded for build, verification and timing alone, where what is surely slower than the best so far after three calls
is cut off ("cut"), whoever proposed it. Writes <out>.json and <out>.md.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import geometric_mean

from landscape_flat import facts_of
from landscape_pages import add_landscapes, landscape_files, leave
from landscape_search import LandscapeBrain
from landscape_stats import Summary, summary, table

from warpsmith import plugins
from warpsmith.agents.expert.ideas import Known, ideas
from warpsmith.agents.expert.planner import plans
from warpsmith.executors.landscape import BETWEEN, MEDIAN, PROCESS
from warpsmith.executors.landscape_data import Landscape, Point
from warpsmith.executors.landscape_file import read
from warpsmith.records import Hypothesis, Unit
from warpsmith.search.tuner import Values

GOAL = 0.95
ROUND = 2  # settings proposed at a time, as a round of the search has places for
LEAST = 8  # settings of a source that is worth tuning
SOURCES = 4  # of a task, those where settings matter most
DEPLOYED = 1.0  # seconds that the judge times a candidate as deployed, baselines between
CALLS, FEW = 60, 3  # calls of that timing; after how many a hopeless one is cut off


@dataclass(frozen=True)
class Space:
    """A source to tune, with what was measured at each of its settings."""

    unit: Unit
    points: dict[tuple[tuple[str, int], ...], Point]

    @property
    def best(self) -> float:
        return min(p.us for p in self.points.values() if p.status == "ok")

    @property
    def spread(self) -> float:
        times = [p.us for p in self.points.values() if p.status == "ok"]
        return max(times) / min(times)


@dataclass
class Race:
    """What one tuner spent until it found a good setting."""

    evaluations: int | None = None
    seconds: float = 0.0
    cut_seconds: float = 0.0  # the same with early stopping


def spaces(landscape: Landscape) -> list[Space]:
    task, facts, brain = landscape.header.task, facts_of(landscape), LandscapeBrain(landscape)
    found = []
    for idea in ideas(task.graph, facts, Known(), plans(task.graph, facts)):
        hypothesis = Hypothesis(
            region=idea.region, family=idea.family.name, technique=idea.technique.name, bottleneck="unknown",
            expected_gain=1.0, evidence=("its own values",), values=idea.values,
        )  # fmt: skip
        unit = next(iter(brain.write_units(task.graph, hypothesis, 1)), None)
        points = dict(_settings(landscape, unit)) if unit is not None else {}
        if unit is not None and sum(p.status == "ok" for p in points.values()) >= LEAST:
            found.append(Space(unit, points))
    return sorted(found, key=lambda s: -s.spread)[:SOURCES]


def _settings(landscape: Landscape, unit: Unit) -> Iterator[tuple[tuple[tuple[str, int], ...], Point]]:
    for point in landscape.points:
        source = landscape.sources[point.source]
        here = (landscape.sites[source.site].nodes, source.family, source.technique)
        if here == (unit.region.nodes, unit.family, unit.technique) and not point.flags:
            yield tuple(sorted(zip(source.names, point.values, strict=True))), point


def race(space: Space, name: str, seed: int, budget: int) -> Race:
    """One tuner on one source."""
    tuner, rng, noise = plugins.load("tuners", name)(), random.Random(seed), random.Random(~seed)
    tried: list[tuple[Values, float]] = []
    spent, best = Race(), math.inf
    while len(tried) < budget:
        proposed = tuner.propose(space.unit, tried, ROUND, rng)
        if not proposed:
            break
        for unit in proposed:
            point = space.points.get(tuple(sorted(unit.values.items())))
            us = measured(point, noise) if point is not None else math.inf
            tried.append((unit.values, 1.0 / us))
            if point is None:
                continue
            seconds = point.build + point.judge
            hopeless = point.status == "ok" and point.us > best * (1 + 2 * _error(point, FEW))
            spent.seconds += seconds + DEPLOYED
            spent.cut_seconds += seconds + DEPLOYED * (FEW / CALLS if hopeless else 1.0)
            best = min(best, us)
            if point.status == "ok" and space.best / point.us >= GOAL:
                spent.evaluations = len(tried)
                return spent
    return spent


def measured(point: Point, noise: random.Random) -> float:
    """Microseconds as one measurement gives them; inf for what failed."""
    if point.status != "ok":
        return math.inf
    return point.us * math.exp(noise.gauss(0.0, math.hypot(PROCESS, _error(point, CALLS))))


def _error(point: Point, calls: int) -> float:
    """Standard error of the logarithm of a median of so many calls."""
    return MEDIAN * math.log(point.high / point.low) / BETWEEN / math.sqrt(calls) if point.low else 0.0


def task_rows(
    path: Path, names: Sequence[str], seeds: int, budget: int
) -> dict[str, list[tuple[float, float, float, bool]]]:
    """Tuner → one row a seed: evaluations and seconds, without and with cuts, geometric means over the task's sources, and
    whether all of them were solved.
    """
    found = spaces(read(path))
    rows: dict[str, list[tuple[float, float, float, bool]]] = {}
    for name in names if found else ():
        for seed in range(seeds):
            runs = [race(space, name, seed, budget) for space in found]
            means = (
                geometric_mean([r.evaluations or budget for r in runs]),
                geometric_mean([r.seconds for r in runs]),
                geometric_mean([r.cut_seconds for r in runs]),
            )
            rows.setdefault(name, []).append((*means, all(r.evaluations for r in runs)))
    return rows


def main() -> int:
    options = arguments()
    names = options.tuners or [n for n in plugins.names("tuners") if n != "tpe" or find_spec("optuna")]
    with ProcessPoolExecutor(options.jobs) as pool:
        jobs = {
            task: pool.submit(task_rows, file, names, options.seeds, options.budget)
            for task, file in landscape_files(options).items()
        }
        rows = {task: job.result() for task, job in jobs.items()}
    rows = {task: found for task, found in rows.items() if found}
    results = {name: summaries({t: r[name] for t, r in rows.items()}, options.budget) for name in names}
    told = {"command": " ".join(["python", "benchmarks/tuners.py", *sys.argv[1:]]), "tasks": sorted(rows), "seeds": options.seeds, "budget": options.budget}  # fmt: skip
    data = {**told, "tuners": {n: {k: s.record() for k, s in r.items()} for n, r in results.items()}}
    leave(options, data, page(told, results))
    return 0


def summaries(rows: dict[str, list[tuple[float, float, float, bool]]], budget: int) -> dict[str, Summary]:
    kinds = ("evaluations", "seconds", "seconds with cut")
    found = {
        kind: summary({t: [row[i] for row in r] for t, r in rows.items()}, budget)
        for i, kind in enumerate(kinds)
    }
    unsolved = [not row[3] for r in rows.values() for row in r]
    failed = sum(unsolved) / len(unsolved)
    return {kind: Summary(s.mean, s.low, s.high, failed) for kind, s in found.items()}


def page(told: dict[str, object], results: dict[str, dict[str, Summary]]) -> str:
    ordered = sorted(results.items(), key=lambda item: item[1]["evaluations"].mean)
    rows = [
        [name, *(s.text() for s in found.values()), f"{found['evaluations'].failed:.0%}"]
        for name, found in ordered
    ]
    tasks = told["tasks"]
    assert isinstance(tasks, list)
    return "\n".join([
        "# Tuners on recorded landscapes", "",
        f"Until a setting is within 5% of the best of its source: geometric means over {len(tasks)} tasks, {told['seeds']} seeds, "
        f"with 95% bootstrap intervals. Budget {told['budget']} evaluations; who does not get there counts with it. The best is the "
        "fastest that was recorded. Seconds are those recorded for build and verification, with a second of timing as deployed; "
        "with cut, what is surely slower after three calls is not timed on.", "",
        *table(["tuner", "evaluations", "seconds", "seconds with cut", "tasks not solved"], rows), "",
        f"`{told['command']}`", "", f"Tasks: {', '.join(tasks)}.", "",
    ])  # fmt: skip


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_landscapes(parser)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budget", type=int, default=48)
    parser.add_argument("--tuners", nargs="+", help="all that are known when left out")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
