"""KernelBench's tasks through the whole loop on a CPU: export, admission, baselines, search, confirmation.

    python benchmarks/kernelbench_cpu.py KernelBench/KernelBench --cache /tmp/kb --out results/cpu/kernelbench \
        --levels 1 2 --budget 24 --time 60 --seed 0 --jobs 1 --cores 2

The folder is a checkout of github.com/ScalingIntelligence/KernelBench, which is fetched and never committed. Its shapes
are too large for a CPU; they are reduced by rule (`shrunk_task.py`), and each row says to what. Each task runs in a
process of its own, as `warpsmith optimize` would run it, and is killed with all it started after `--limit-s`. `--jobs`
tasks run at a time, each on `--cores` physical cores of its own (one hyperthread of each); memory bandwidth and the last
cache they share. Builds, measured peaks and torch.compile's caches go to `--cache`.

Writes <out>.jsonl, one row a task as it is done (the same command goes on where it was stopped), and <out>.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from item_processes import (
    Columns,
    Items,
    add_run_options,
    follow_parent,
    pass_on,
    read_seconds,
    seconds_left,
    write_row,
)
from json_lines import known_rows
from kernelbench_cpu_report import markdown, settings
from kernelbench_tasks import (
    add_size_options,
    add_task_options,
    bounds_of,
    choose_tasks,
    describe_graph,
    task_file,
)
from lanes import environment, slots
from pages import describe_machine, write_page
from shrunk_task import shrunk_task

from warpsmith.api import optimize_task
from warpsmith.archive.entries import Entry
from warpsmith.archive.store import Archive
from warpsmith.config import Config
from warpsmith.errors import TaskError, UsageError, WarpsmithError
from warpsmith.processes.buffers import Scratch
from warpsmith.progress import PlainObserver
from warpsmith.records import Budget, Candidate

Row = dict[str, Any]
COLUMNS = Columns(item="task", seconds="seconds", timeout="error")
REASONS = 4  # ways to fail of a task's candidates, the most frequent


def measure_task(options: argparse.Namespace) -> Row:
    """The row of one task, from file to summary. What is a bug ends this process with its traceback."""
    file = task_file(options)
    path, row = str(file), Row()
    try:
        with Scratch() as scratch:
            task = shrunk_task(path, bounds_of(options), scratch=scratch, timeout=options.load_timeout)
        row |= {"overrides": task.main.overrides, **describe_graph(task.graph)}
        row |= optimized(path, task.main.overrides, options)
    except (TaskError, UsageError) as error:
        row |= {"status": "refused", "reason": str(error)}
    except WarpsmithError as error:
        row |= {"status": "error", "reason": f"{type(error).__name__}: {error}"}
    return {**row, "reason": row["reason"].replace(path, file.name)}


def optimized(path: str, overrides: dict[str, Any], options: argparse.Namespace) -> Row:
    """What a user's run says, and what the archive holds of it. Raises WarpsmithError."""
    archive = Path(tempfile.gettempdir()) / "archive.db"  # the parent gave this process a folder of its own
    config = Config.load(
        {
            "archive": archive, "cache": options.cache, "baselines": options.baselines,
            "load_timeout": options.load_timeout, "memory_gb": options.memory_gb,
        }
    )  # fmt: skip
    budget = Budget(evaluations=options.budget or None, seconds=options.time or None)
    summary = optimize_task(
        path, budget=budget, seed=options.seed, config=config, observer=PlainObserver(), overrides=overrides
    )
    store = Archive(archive)
    run, entries = store.run(summary.run_id), store.run_entries(summary.run_id)
    best = summary.best.candidate_id if summary.best else ""
    quarantined = run.admission.reasons if run.admission and not run.admission.admitted else ()
    return {
        "status": "quarantined" if quarantined else summary.status,
        "reason": "; ".join(quarantined) or summary.reason,
        "winner": next((units(e.candidate) for e in entries if e.candidate.id == best), ""),
        "statuses": dict(Counter(e.result.status for e in entries if e.kind == "search")),
        "confirmations": dict(Counter(e.result.status for e in entries if e.kind == "confirmation")),
        "failures": Counter(told(e) for e in entries if e.result.status != "ok").most_common(REASONS),
        "internal": [e.result.reason for e in entries if e.result.status == "error"],
        "failed_baselines": {b.name: b.reason for b in run.baselines if not b.ok},
        "summary": summary.model_dump(mode="json"),
    }


def told(entry: Entry) -> str:
    return f"{entry.result.status} ({units(entry.candidate)}): {entry.result.reason}"


def units(candidate: Candidate) -> str:
    """Family and technique of each unit."""
    return " + ".join(dict.fromkeys(f"{u.family}: {u.technique}" for u in candidate.units))


def main() -> int:
    options = arguments()
    if options.row:
        follow_parent(options)
        write_row(options, measure_task(options))
        return 0
    options.cache = options.cache.resolve()
    file, tasks = options.out.with_suffix(".jsonl"), choose_tasks(options)
    ran_on = {"machine": describe_machine(), "jobs": options.jobs, "cores": options.cores}
    passed = pass_on(
        options, "cache", "budget", "time", "seed", "bytes", "flops", "load_timeout", "memory_gb", "baselines"
    )
    items = Items(
        os.path.abspath(__file__), [str(options.folder), *passed], options.limit_s, slots(options.jobs, options.cores),
        seconds_left(options), COLUMNS, partial(environment, cache=options.cache, cores=options.cores),
        lambda row: {**row, **ran_on},
    )  # fmt: skip
    items.run_rest(list(tasks), file, options.retry)
    rows = known_rows(file)
    text = markdown(list(rows.values()), settings(options), sum(name not in rows for name in tasks))
    write_page(options.out.with_suffix(".md"), text)
    return int(any(row["status"] == "error" or row.get("internal") for row in rows.values()))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_task_options(parser, levels=[1, 2])
    add_size_options(parser, 8 << 20, 5e8)
    add_run_options(parser, Path("results/cpu/kernelbench"), limit_s=600.0, cores=2)
    parser.add_argument("--cache", type=Path, required=True, help="folder for builds and measured peaks")
    parser.add_argument("--budget", type=int, default=24, help="candidates to judge a task; 0: no limit")
    parser.add_argument("--time", type=read_seconds, default=60.0, help="for a task, its set-up included")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--baselines", nargs="+", help="eager compile compile-max-autotune (all)")
    parser.add_argument("--memory-gb", type=float, default=16.0, help="memory of the task's own process")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
