"""What each part of the search is worth: evaluations until a candidate at 95% of the best known, on recorded landscapes.

    python benchmarks/ablation.py results/landscapes/cpu --seeds 20 --out results/landscapes/ablation

Plays the whole search, the search without each of its parts, simple searches over the flat space of the same units, and the whole
search with an archive of runs on the *other* landscapes, by the same seeds; `--openevolve PYTHON` adds OpenEvolve, run by that
interpreter (python -m venv /tmp/oe; /tmp/oe/bin/pip install openevolve==0.4.0 pydantic psutil rich), whose model is a script that proposes
from the same units. All begin with the known-good candidate or the expert's first guesses, all see the same noise, and none stops before its
budget, unless it reached the goal: what would come then changes no figure.
Writes <out>.json and <out>.md; nothing is left out of them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import Future, ProcessPoolExecutor, wait
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from types import MappingProxyType
from typing import Any

from landscape_flat import FLAT, Flat
from landscape_pages import add_landscapes, landscape_files, leave
from landscape_search import (
    GOAL,
    LandscapeBrain,
    Trace,
    flat_search,
    package_search,
    settings,
)
from landscape_stats import Needed, ratio, summary, table

from warpsmith.agents.base import Attempt
from warpsmith.archive.store import Archive
from warpsmith.archive.timings import list_timed_units
from warpsmith.executors.landscape_data import Landscape
from warpsmith.executors.landscape_file import read
from warpsmith.pipeline.transfer_seeds import ArchiveTransferSeeds

FULL = "the whole search"
TRANSFER = "with an archive of other tasks"
OPENEVOLVE = "OpenEvolve 0.4.0"
EARLY = 20  # evaluations after which the best so far is compared, too
WITHOUT: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    FULL: {},
    "even shares": {"policy": "even"},
    "fixed shares": {"policy": "fixed"},
    "one island": {"islands": 1},
    "no novelty": {"novelty": 0.0},
    "ranks by medians": {"selection": "point"},
    "no elites": {"elites": False},
    "no steering": {"steering": False},
    "no predict": {"without": ("predict",)},
    "no rewrite": {"without": ("rewrite",)},
    "no edit": {"without": ("edit",)},
    "no tune": {"without": ("tune",)},
    "no crossover": {"without": ("crossover",)},
    "no restart": {"without": ("restart",)},
    "no simplify": {"simplify": False},
})  # fmt: skip
Traces = list[Trace]  # one a seed


@cache
def _opened(file: Path) -> tuple[Landscape, Flat, LandscapeBrain]:
    """Of a worker: one landscape is read, and its kernels are written, once."""
    landscape = read(file)
    return landscape, Flat(landscape), LandscapeBrain(landscape)


def played(file: Path, way: str, seeds: int, budget: int, archive: Path | None = None) -> Traces:
    """One way on one landscape, by every seed."""
    landscape, flat, brain = _opened(file)
    if way in FLAT:
        return [flat_search(landscape, flat, way, seed, budget, EARLY) for seed in range(seeds)]
    if way == TRANSFER and archive is not None:
        store = Archive(archive)
        transfer_seeds = ArchiveTransferSeeds(
            store, landscape.header.target, task_id=landscape.header.task.id
        )
        elsewhere = list_timed_units(store, landscape.header.target, without=landscape.header.task.id)
        return [
            package_search(
                landscape, brain, settings(), s, budget, transfer_seeds, least=EARLY, elsewhere=elsewhere
            )
            for s in range(seeds)
        ]
    config = settings(**WITHOUT[way])
    return [package_search(landscape, brain, config, seed, budget, least=EARLY) for seed in range(seeds)]


def fill(archive: Path, files: list[Path], budget: int, seed: int) -> None:
    """An archive with one run on each landscape, as runs on a machine leave one."""
    store = Archive(archive)
    for file in files:
        landscape, _, brain = _opened(file)
        header = landscape.header
        store.begin_run(header.task.name, header.task, header.target, 0, {}, header.environment)

        def keep(attempt: Attempt, run: str = header.task.name) -> None:
            store.add_result(run, attempt.candidate, attempt.result, attempt.hypothesis)

        package_search(landscape, brain, settings(), seed, budget, record=keep)


def by_openevolve(python: Path, file: Path, seeds: int, budget: int) -> Traces:
    """In its own interpreter, which needs this package's sources and none of its installed parts but pydantic, numpy, psutil and rich."""
    here = Path(__file__).resolve().parent
    script = str(here / "openevolve_landscape.py")
    env = {**os.environ, "PYTHONPATH": f"{here.parent / 'src'}{os.pathsep}{here}"}
    with tempfile.TemporaryDirectory(prefix="openevolve-") as folder:
        done = subprocess.run(
            [str(python), script, str(file.resolve()), "--seeds", str(seeds), "--budget", str(budget)],
            cwd=folder, env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"OpenEvolve on {file.name}: {done.stderr.strip()[-2000:]}")
    return [
        Trace([math.inf if us is None else us for us in run])
        for run in json.loads(done.stdout.splitlines()[-1])
    ]


def results(
    files: Mapping[str, Path], options: argparse.Namespace, archive: Path
) -> dict[str, dict[str, Traces]]:
    """Way → task → traces; ways that were not done on all tasks within the time are left out."""
    until = time.monotonic() + options.seconds
    jobs: dict[tuple[str, str], Future[Traces]] = {}
    pool = ProcessPoolExecutor(options.jobs)
    for way in options.ways:
        for task, file in files.items():
            key = way, task
            if way == OPENEVOLVE:
                seeds = min(options.seeds, options.openevolve_seeds)
                jobs[key] = pool.submit(by_openevolve, options.openevolve, file, seeds, options.budget)
            else:
                jobs[key] = pool.submit(played, file, way, options.seeds, options.budget, archive)
    wait(jobs.values(), max(0.0, until - time.monotonic()))
    late = {way for (way, _), job in jobs.items() if not job.done()}
    if late:
        print(f"not done in time: {', '.join(sorted(late))}", file=sys.stderr)
    found: dict[str, dict[str, Traces]] = {}
    for (way, name), job in jobs.items():
        if way not in late:
            found.setdefault(way, {})[name] = job.result()
    processes = list(pool._processes.values()) if late else []
    pool.shutdown(wait=not late, cancel_futures=True)
    for process in processes:  # what is under way belongs to ways that are left out
        process.kill()
    return found


def main() -> int:
    options = arguments()
    files = landscape_files(options)
    landscapes = {task: read(file) for task, file in files.items()}
    earlier = joined([json.loads(file.read_text()) for file in options.add])
    with tempfile.TemporaryDirectory(prefix="ablation-") as folder:
        archive = Path(folder) / "archive.db"
        if TRANSFER in options.ways:
            fill(archive, list(files.values()), options.budget, options.archive_seed)
        found = results(files, options, archive)
    data = figures(found, landscapes, options, earlier)
    leave(options, data, page(data))
    return 0


def figures(
    found: Mapping[str, Mapping[str, Traces]],
    landscapes: Mapping[str, Landscape],
    options: argparse.Namespace,
    earlier: Mapping[str, Any],
) -> dict[str, Any]:
    """`earlier`: what another call wrote; its ways stay where they were not played again."""
    needed: dict[str, Needed] = dict(earlier.get("needed", {}))
    needed |= {
        way: {task: [t.needed(landscapes[task]) for t in traces] for task, traces in tasks.items()}
        for way, tasks in found.items()
    }
    rows = dict(earlier.get("ways", {}))
    for way, tasks in found.items():
        asked = [(len(t.us), t.missing) for traces in tasks.values() for t in traces]
        missing = sum(m for _, m in asked) / max(1, sum(n for n, _ in asked))
        early = [reached(t, landscapes[task], EARLY) for task, traces in tasks.items() for t in traces]
        rows[way] = {
            **summary(needed[way], options.budget, missing).record(),
            "early": round(mean(early), 4), "seeds": max(map(len, tasks.values())),
        }  # fmt: skip
    for way, row in rows.items():  # the whole search may be another's or a new one
        compared = ratio(needed[way], needed[FULL], options.budget) if FULL in needed else None
        row["to_full"] = [round(v, 3) for v in compared] if compared is not None else None
    command = " ".join(["python", "benchmarks/ablation.py", *sys.argv[1:]])
    return {
        "command": "; ".join(filter(None, [earlier.get("command", ""), command])),
        "goal": GOAL, "budget": options.budget, "seeds": options.seeds, "early_after": EARLY,
        "tasks": {name: described(land) for name, land in landscapes.items()},
        "ways": rows,
        "needed": {way: {task: list(n) for task, n in tasks.items()} for way, tasks in needed.items()},
    }  # fmt: skip


def joined(earlier: list[dict[str, Any]]) -> dict[str, Any]:
    """Of what several calls wrote: their ways together, those of the last where more than one has them."""
    return {
        "needed": {way: tasks for data in earlier for way, tasks in data["needed"].items()},
        "ways": {way: row for data in earlier for way, row in data["ways"].items()},
        "command": "; ".join(data["command"] for data in earlier),
    }


def reached(trace: Trace, landscape: Landscape, n: int) -> float:
    """Speed of the best of the first `n` candidates, as a share of the best known; 0 when none works."""
    return landscape.best_us / min(trace.us[:n], default=math.inf)


def described(landscape: Landscape) -> dict[str, Any]:
    header = landscape.header
    agreement = landscape.correlate_model()
    return {
        "points": len(landscape.points), "sources": len(landscape.sources), "sites": len(landscape.sites),
        "failed": sum(p.status != "ok" for p in landscape.points), "speedup": round(landscape.baseline.median_us / landscape.best_us, 3),
        "baseline": landscape.baseline.name, "agreement": None if math.isnan(agreement) else round(agreement, 3),
        "wholes": len(landscape.wholes), "machine": f"{header.environment.cpu}, {header.environment.threads} threads, torch {header.environment.torch}",
    }  # fmt: skip


def page(data: Mapping[str, Any]) -> str:
    ways = sorted(data["ways"].items(), key=lambda item: (item[0] != FULL, item[1]["mean"]))
    rows = [
        [
            way, f"{r['mean']:.1f} ({r['low']:.1f}–{r['high']:.1f})", told_ratio(r["to_full"]), f"{r['failed']:.0%}",
            f"{r['early']:.0%}", f"{r['missing']:.1%}", str(r["seeds"]),
        ]
        for way, r in ways
    ]  # fmt: skip
    tasks = [
        [
            name, str(t["points"]), str(t["sources"]), str(t["sites"]), f"{t['speedup']:.2f}x {t['baseline']}",
            "–" if t["agreement"] is None else f"{t['agreement']:.2f} of {t['wholes']}",
        ]
        for name, t in data["tasks"].items()
    ]  # fmt: skip
    machines = "; ".join(sorted({t["machine"] for t in data["tasks"].values()}))
    return "\n".join([
        "# What each part of the search is worth", "",
        f"Evaluations until the first candidate at {data['goal']:.0%} of the speed of the best that the landscape holds, by its true "
        f"time: geometric means over {len(data['tasks'])} tasks, with 95% bootstrap intervals over tasks and seeds. The budget is "
        f"{data['budget']} evaluations; a run that does not get there counts with the budget, so that means of ways that often fail "
        "are lower bounds. To the whole search: the ratio of the means, paired by task, above 1 the whole search needs fewer. "
        f"After {data['early_after']}: the best so far, as a share of the best known. Not recorded: the share of what was asked "
        "for that the landscapes do not hold; a table above 10% there is not fit.", "",
        *table(["way", "evaluations", "to the whole search", "not reached", f"after {data['early_after']}", "not recorded", "seeds"], rows), "",
        "## Landscapes", "",
        f"Recorded on: {machines}. Agreement: rank correlation of the additive model with candidates timed as deployed.", "",
        *table(["task", "units", "sources", "regions", "best known", "agreement"], tasks), "",
        f"`{data['command']}`", "",
    ])  # fmt: skip


def told_ratio(found: list[float] | None) -> str:
    return "–" if found is None else f"{found[0]:.2f} ({found[1]:.2f}–{found[2]:.2f})"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_landscapes(parser)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--archive-seed", type=int, default=1_000, help="of the runs that the archive holds")
    parser.add_argument("--budget", type=int, default=80, help="evaluations of a run")
    parser.add_argument(
        "--ways", nargs="+", help="some of the rows of the table; all but OpenEvolve by default"
    )
    parser.add_argument(
        "--seconds", type=float, default=float(1 << 20), help="ways that take longer are left out"
    )
    parser.add_argument(
        "--add", type=Path, nargs="+", default=[], help="earlier .json files whose other rows are kept"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--openevolve", type=Path, help="a Python that has OpenEvolve")
    parser.add_argument("--openevolve-seeds", type=int, default=20)
    options = parser.parse_args()
    if options.ways is None:
        flat = [way for way in FLAT if way != "TPE" or find_spec("optuna")]
        named = [*WITHOUT, TRANSFER]
        options.ways = [named[0], *flat, *named[1:], *([OPENEVOLVE] if options.openevolve else [])]
    return options


if __name__ == "__main__":
    sys.exit(main())
