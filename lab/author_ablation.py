"""What the loop's telling is worth: lessons, knowledge and branching switched, with a simulated author on recorded landscapes.

    python lab/author_ablation.py results/landscapes/cpu --seeds 20 --out results/llm/ablation

The search, the agents, prompts, retrieval, lessons, archive and network client are the real ones. The author is
`simulated_author.py`: a policy with stated chances that reads its prompt. Times are recorded (`record_landscapes.py`), and so is what
compiler and judge say of its mistakes (`author_recorder.py`). Each seed is one author that solves all tasks in an order of its own
over one archive, so that lessons and examples carry over. Every way gets the same tokens for each task. Writes <out>.json and <out>.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import benchmarks_on_path  # noqa: F401
from author_mistakes import MISTAKES, Failures
from author_runs import Reached, sequence
from landscape_pages import add_landscapes, landscape_files, leave
from landscape_stats import Summary, ratio, summary, table
from simulated_author import CHANCES, Library

from warpsmith.executors.landscape_data import Landscape
from warpsmith.executors.landscape_file import read

WAYS: Mapping[str, Mapping[str, Any]] = {
    "full (k = 3)": {}, "no lessons": {"lessons": False}, "no knowledge": {"knowledge": False},
    "neither": {"lessons": False, "knowledge": False}, "no examples": {"examples": False}, "no profiles": {"profiles": False}, "k = 1": {"branches": 1}, "k = 4": {"branches": 4},
}  # fmt: skip
FULL = "full (k = 3)"
TASKS = (
    "groupnorm_swish", "layernorm_gelu_residual", "log_softmax_pixels", "loss_distillation", "pool_average_transition",
    "rmsnorm_query_heads", "rmsnorm_residual_pair", "softmax_masked_scores",
)  # fmt: skip
GOAL = 0.95  # share of the best speedup that any run reached
Rows = Mapping[str, Sequence[Sequence[Reached]]]  # way → one sequence a seed


@cache
def library(files: tuple[Path, ...], mistakes: Path) -> tuple[list[Landscape], Library]:
    """Once a process."""
    landscapes, known = [read(f) for f in files], Library(Failures.read(mistakes))
    for landscape in landscapes:
        known.add(landscape)
    writable = {task for task, _ in known.units}
    return [one for one in landscapes if one.header.task.name in writable], known


def one_seed(files: tuple[Path, ...], mistakes: Path, way: str, seed: int, tokens: int) -> list[Reached]:
    landscapes, known = library(files, mistakes)
    with tempfile.TemporaryDirectory(prefix="author-") as folder:
        return list(sequence(landscapes, known, Path(folder), seed, tokens, **WAYS[way]))


def main() -> int:
    options = arguments()
    files = tuple(landscape_files(options, options.tasks).values())
    with ProcessPoolExecutor(options.jobs) as pool:
        jobs = {
            way: [
                pool.submit(one_seed, files, options.mistakes, way, s, options.tokens)
                for s in range(options.seeds)
            ]
            for way in WAYS
        }
        rows = {way: [job.result() for job in mine] for way, mine in jobs.items()}
    data = figures(rows, options.tokens)
    told = {
        "command": " ".join(["python", "lab/author_ablation.py", *sys.argv[1:]]), "seeds": options.seeds,
        "tokens": options.tokens, "chances": dict(CHANCES), "tasks": sorted({r.task for s in rows[FULL] for r in s}),
    }  # fmt: skip
    runs = {way: [[kept_of(r) for r in s] for s in mine] for way, mine in rows.items()}
    leave(options, {**told, "figures": data, "runs": runs}, page(told, data), indent=None)
    return 0


def kept_of(run: Reached) -> dict[str, Any]:
    """Of how the best rose, only the numbers that were reached."""
    steps = [(tokens, round(best, 3)) for tokens, best in run.steps]
    return {**asdict(run), "best": round(run.best, 3), "steps": steps}


# ---------------------------------------------------------------- figures


def figures(rows: Rows, tokens: int) -> dict[str, Any]:
    """Way → part (all tasks, the first of each author, later ones) → what was reached."""
    best: dict[str, float] = {}
    for one in (r for mine in rows.values() for s in mine for r in s):
        best[one.task] = max(best.get(one.task, 1.0), one.best)
    parts = {"all": range(10**6), "first": range(1), "later": range(1, 10**6)}
    return {
        way: {part: figure(mine, rows[FULL], best, places, tokens) for part, places in parts.items()}
        for way, mine in rows.items()
    }


def figure(
    mine: Sequence[Sequence[Reached]], full: Sequence[Sequence[Reached]], best: Mapping[str, float], places: range, tokens: int
) -> dict[str, Any]:  # fmt: skip
    runs = [r for seed in mine for r in seed if r.place in places]
    if not runs:
        return {}
    speed, goal = speeds(mine, places), reached(mine, places, best)
    units = sum(r.units for r in runs)
    return {
        "speedup": summary(speed, 1.0).record(),
        "of full": [round(v, 4) for v in ratio(speed, speeds(full, places), 1.0)],
        "tokens to goal": summary(goal, tokens).record(),
        "goal tokens of full": [round(v, 4) for v in ratio(goal, reached(full, places, best), tokens)],
        "failed": round(sum(r.failed for r in runs) / max(1, units), 4),
        "first failed": round(mean(r.first_failed for r in runs), 4),
        "units": round(units / len(runs), 2), "questions": round(mean(r.exchanges for r in runs), 2),
        "told a lesson": round(mean(r.lessons for r in runs), 2), "tokens": round(mean(r.tokens for r in runs)),
        "missing": round(sum(r.missing for r in runs) / max(1, sum(r.evaluations for r in runs)), 4),
    }  # fmt: skip


def speeds(mine: Sequence[Sequence[Reached]], places: range) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for r in (r for seed in mine for r in seed if r.place in places):
        found.setdefault(r.task, []).append(r.best)
    return found


def reached(
    mine: Sequence[Sequence[Reached]], places: range, best: Mapping[str, float]
) -> dict[str, list[int | None]]:
    """Tokens until a run was at the goal."""
    found: dict[str, list[int | None]] = {}
    for r in (r for seed in mine for r in seed if r.place in places):
        found.setdefault(r.task, []).append(r.tokens_to(GOAL * best[r.task]))
    return found


# ---------------------------------------------------------------- the page


def page(told: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    columns = (
        "way", "best speedup", "of full's", f"thousand tokens to {GOAL:.0%} of the best", "not reached", "units that failed",
        "first unit failed", "units", "questions", "questions told a lesson",
    )  # fmt: skip
    lines = [
        "# What lessons, knowledge and branching are worth to a simulated author", "",
        "**This says nothing about any real model.** The author is a program that reads its prompt and follows what it is told "
        "with the chances below, which are made up. The figures say what the loop's telling is worth to an author that "
        "follows what it is told this often. The search, agents, prompts, retrieval of knowledge and examples, lessons, archive, "
        "token meter and network client are the real ones; times, compiler messages and the judge's reports are recorded ones.", "",
        f"{len(told['tasks'])} tasks of suite core, {told['seeds']} authors (seeds), {told['tokens']:,} tokens for each task, whatever "
        "the way. Each author solves all tasks in an order of its own over one archive. Speedups are true ones of the landscape, over "
        "the best baseline: geometric means with 95% bootstrap intervals over tasks and authors, ratios paired by both. \"Best\" is "
        "the best that any run here reached on the task; who does not get there counts with all of its tokens. k is the number of "
        "hypotheses a round.", "",
    ]  # fmt: skip
    for part, title in (
        ("all", "All tasks"),
        ("first", "The first task of each author"),
        ("later", "Later tasks"),
    ):
        rows = [row(way, found[part]) for way, found in data.items() if found[part]]
        lines += [f"## {title}", "", *table(columns, rows), ""]
    chances = "; ".join(f"{name} {value:g}" for name, value in told["chances"].items())
    lines += [
        f"Chances of the author: {chances}. `lab/simulated_author.py` says what each means.", "",
        f"Mistakes it may be prone to: {', '.join(m.name for m in MISTAKES)}. What compiler and judge said of them was recorded by "
        "`lab/author_recorder.py`.", "",
        f"Asked for what the landscapes do not hold: {max(f['all']['missing'] for f in data.values()):.1%} at the most.", "",
        f"`{told['command']}`", "", f"Tasks: {', '.join(told['tasks'])}.", "",
    ]  # fmt: skip
    return "\n".join(lines)


def row(way: str, found: Mapping[str, Any]) -> list[str]:
    goal = found["tokens to goal"]
    return [
        way, interval(found["speedup"], 1.0), "{:.3f} ({:.3f}–{:.3f})".format(*found["of full"]), interval(goal, 1e3),
        f"{goal['failed']:.0%}", f"{found['failed']:.0%}", f"{found['first failed']:.0%}", f"{found['units']:.1f}",
        f"{found['questions']:.1f}", f"{found['told a lesson']:.1f}",
    ]  # fmt: skip


def interval(found: Mapping[str, float], unit: float) -> str:
    mean, low, high = (found[k] / unit for k in ("mean", "low", "high"))
    return Summary(mean, low, high, 0.0).text() if unit > 1 else f"{mean:.2f} ({low:.2f}–{high:.2f})"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_landscapes(parser)
    parser.add_argument(
        "--tasks", nargs="*", default=list(TASKS), help="only landscapes of these (eight); without a name all"
    )
    parser.add_argument("--mistakes", type=Path, default=Path("results/llm/mistakes.jsonl"))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=200_000, help="of one run on one task")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
