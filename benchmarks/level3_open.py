"""How long KernelBench's whole networks take until the judge is ready for a first candidate, by stage.

    python benchmarks/level3_open.py KernelBench/KernelBench --out results/cpu/level3_open --cache /tmp/kb

The folder is a checkout of github.com/ScalingIntelligence/KernelBench, which is fetched and never committed; two tasks
need the package einops. Each task runs in a process of its own: it is loaded, then a judge is opened on it (the machine's
limit, inputs, admission, baselines, each part alone). It is killed with all it started after `--limit-s`, and its row says
in which stage. On a CPU the sizes are reduced by rule (`shrunk_task.py`), and each row says to what.

On a machine with a GPU, at KernelBench's own sizes, four tasks side by side, ended by itself after ten minutes
(`docs/bundles.md` says how to pack it as a kit):

    python benchmarks/level3_open.py KernelBench/KernelBench --target cuda --jobs 4 --limit-s 150 \
        --seconds 570 --baselines eager compile --cache /tmp/level3 --out level3_open [--known FILE.jsonl]

Writes <out>.jsonl, one row a task as it is done,
and <out>.md. The same command goes on where it was stopped; `--known` names rows of an earlier run that lie elsewhere.
Tasks that `--seconds` cuts short get no row.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from item_processes import Columns, Items, add_run_options, follow_parent, pass_on, seconds_left, write_row
from json_lines import known_rows
from kernelbench_tasks import add_size_options, add_task_options, bounds_of, choose_tasks, task_file
from lanes import divide, environment
from pages import list_table, write_page
from shrunk_task import shrunk_task

from warpsmith import machine
from warpsmith.api import make_target
from warpsmith.config import Config
from warpsmith.errors import TaskError, UsageError, WarpsmithError
from warpsmith.judge.judge import Judge
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Task
from warpsmith.tasks.load import load_task

Row = dict[str, Any]
STAGES = ("load", "limit", "inputs", "admission", "baselines", "profile")
COLUMNS = Columns(item="task", status="outcome", seconds="total")


class RowFile:
    """The row of one task, written anew at each stage: what is killed leaves what it had."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.row = options, Row()
        self.write(stage="load", seconds={})

    def write(self, **fields: Any) -> None:
        self.row |= fields
        write_row(self.options, self.row)


def measure_task(options: argparse.Namespace) -> None:
    """The side of a task's process. A bug ends it with its traceback."""
    file, path = RowFile(options), str(task_file(options))
    try:
        with Scratch() as scratch:
            open_task(load(path, scratch, options, file), scratch, options, file)
    except (TaskError, UsageError) as error:
        file.write(outcome="refused", reason=str(error).replace(path, Path(path).name))
    except WarpsmithError as error:
        text = f"{type(error).__name__}: {error}".replace(path, Path(path).name)
        file.write(outcome="error", reason=text)


def load(path: str, scratch: Scratch, options: argparse.Namespace, file: RowFile) -> Task:
    """The task at its own sizes for a GPU, else at reduced ones."""
    start = time.monotonic()
    if options.target == "cuda":
        task = load_task(path, scratch=scratch, timeout=options.load_timeout)
    else:
        task = shrunk_task(path, bounds_of(options), scratch=scratch, timeout=options.load_timeout)
    shapes = [list(i.spec.shape) for i in task.graph.inputs if i.role == "input"]
    file.write(
        seconds={"load": round(time.monotonic() - start, 1)}, stage="open", nodes=len(task.graph.nodes),
        inputs=shapes, overrides=task.main.overrides, gflop=round(task.graph.flops / 1e9, 1),
        variants=len(task.variants),
    )  # fmt: skip
    return task


def open_task(task: Task, scratch: Scratch, options: argparse.Namespace, file: RowFile) -> None:
    """Open a judge as a run would, and write what came of it. Raises WarpsmithError."""
    target = make_target(options.target, Config.load({"cache": options.cache}))
    loading = file.row["seconds"]

    def note(text: str) -> None:
        seconds = {name: round(spent, 1) for name, spent in judge.seconds.items()}
        file.write(stage=text, seconds={**loading, **seconds})

    judge = Judge(
        task, target, scratch=scratch, workdir=scratch.new("run"), seed=0, progress=note,
        baselines=options.baselines, peaks_cache=options.cache, memory_gb=options.memory_gb,
    )  # fmt: skip
    with judge:
        judge.open()
        note("ready")
    lost = {name: timing.reason for name, timing in judge.baselines.items() if not timing.ok}
    working = {name: round(t.median_us, 1) for name, t in judge.baselines.items() if t.ok}
    file.write(
        outcome="ready" if judge.admission.admitted else "quarantined", reason="; ".join(judge.admission.reasons),
        baselines_us=working, failed_baselines=lost, mutants=len(judge.admission.mutants),
    )  # fmt: skip


def make_items(options: argparse.Namespace) -> Items:
    shared = options.cache / "tmp"  # tasks side by side take turns on a GPU by a lock that lies there
    shared.mkdir(parents=True, exist_ok=True)
    lanes, ran_on = divide(options.jobs, options.cores), conditions(options)
    passed = pass_on(options, "target", "cache", "bytes", "flops", "load_timeout", "memory_gb", "baselines")
    return Items(
        os.path.abspath(__file__), [str(options.folder), *passed], options.limit_s, lanes, seconds_left(options), COLUMNS,
        lambda folder: environment(shared, options.cache, len(lanes[0])),
        lambda row: {"seconds": {}, **row, **ran_on},
    )  # fmt: skip


def main() -> int:
    options = arguments()
    if options.row:
        follow_parent(options)
        measure_task(options)
        return 0
    options.cache = options.cache.resolve()
    if options.memory_gb is None:
        options.memory_gb = psutil.virtual_memory().available / 2**30 / options.jobs
    names, known = list(choose_tasks(options)), known_rows(options.known) if options.known else {}
    rows = make_items(options).run_rest(names, options.out.with_suffix(".jsonl"), options.retry, known)
    missing = len(names) - len(rows)
    write_page(options.out.with_suffix(".md"), markdown(rows, missing))
    return int(missing > 0 or any(row["outcome"] == "error" for row in rows))


def conditions(options: argparse.Namespace) -> Row:
    """What a row was measured with."""
    here = machine.describe(device=options.target)
    hardware = f"{here.device}, torch {here.torch}, Python {here.python}"
    return {
        "machine": hardware, "target": options.target, "jobs": options.jobs, "limit": options.limit_s,
        "baselines": options.baselines, "date": datetime.now(UTC).date().isoformat(),
    }  # fmt: skip


def markdown(rows: list[Row], missing: int) -> str:
    """The page. `missing`: tasks without a row."""
    measured = sorted({(r["machine"], r["target"], r["jobs"], r["limit"], r["date"]) for r in rows})
    lines = ["# From a file to a judge that is ready: KernelBench's whole networks", ""]
    for hardware, target, jobs, limit, date in measured:
        lines.append(f"{date}, target {target}: {hardware}; {jobs} at a time, at most {limit:g} s each.")
    baselines = sorted({" ".join(r["baselines"]) for r in rows})
    counts = Counter(r["outcome"] for r in rows)
    lines += ["", f"Baselines: {', '.join(baselines)}. Command: see `benchmarks/level3_open.py`.", ""]
    lines += [f"{len(rows)} tasks: " + ", ".join(f"{n} {name}" for name, n in counts.most_common()) + "."]
    lines += [f"{missing} tasks have no row yet: the same command goes on."] if missing else []
    titles = ["task", "sizes", "nodes", "GFLOP", *(f"{s} s" for s in STAGES), "total s", "outcome"]
    lines += ["", *list_table(titles, map(cells, sorted(rows, key=place)))]
    return "\n".join(lines) + "\n"


def place(row: Row) -> tuple[str, int]:
    level, _, name = row["task"].partition("/")
    number = name.partition("_")[0]
    return level, int(number) if number.isdigit() else 0


def cells(row: Row) -> Iterable[str]:
    sizes = ", ".join(f"{name}={value}" for name, value in row.get("overrides", {}).items()) or "its own"
    stages = [f"{row['seconds'][s]:g}" if s in row["seconds"] else "" for s in STAGES]
    outcome = f"{row['outcome']}: {row['reason']}" if row["reason"] else row["outcome"]
    counted = [str(row.get("nodes", "")), str(row.get("gflop", ""))]
    return [row["task"], sizes, *counted, *stages, f"{row['total']:g}", outcome]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_task_options(parser, levels=[3])
    add_size_options(parser, 64 << 20, 5e9)
    add_run_options(parser, Path("results/cpu/level3_open"), limit_s=120.0)
    parser.add_argument("--known", type=Path, help="JSON lines of an earlier run")
    parser.add_argument("--cache", type=Path, required=True, help="folder for builds and measured peaks")
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--baselines", nargs="+", default=["eager"])
    parser.add_argument("--memory-gb", type=float, help="of each judge; an equal share by default")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
