"""How long KernelBench's whole networks take until the judge is ready for a first candidate, by stage.

    python benchmarks/level3_open.py KernelBench/KernelBench --out results/cpu/level3_open --cache /tmp/kb

The folder is a checkout of github.com/ScalingIntelligence/KernelBench, which is fetched and never committed; two tasks
need the package einops. Each task runs in a process of its own: it is loaded, then a judge is opened on it (the machine's
limit, inputs, admission, baselines, each part alone). It is killed with all it started after `--timeout`, and its row says
in which stage. On a CPU the sizes are reduced by rule (`shrunk_task.py`), and each row says to what.

On a machine with a GPU, at KernelBench's own sizes, four tasks side by side, ended by itself after ten minutes:

    PYTHONPATH=$PWD/src:$PWD/.extra python benchmarks/level3_open.py .kb --target cuda --jobs 4 --timeout 150 \
        --seconds 570 --baselines eager compile --cache /tmp/level3 --out "$OUT/level3_open" [--known FILE.jsonl]

where `.kb/level3` holds the task files and `.extra` the package einops. Writes <out>.jsonl, one row a task as it is done,
and <out>.md. The same command goes on where it was stopped; `--known` names rows of an earlier run that lie elsewhere.
Tasks that `--seconds` cuts short get no row.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from json_lines import known_lines
from kernelbench_admission import chosen
from lanes import environment, slots, waited
from shrunk_task import Bounds, shrunk_task

from warpsmith import machine
from warpsmith.api import make_target
from warpsmith.config import Config
from warpsmith.errors import TaskError, UsageError, WarpsmithError
from warpsmith.judge.judge import Judge
from warpsmith.processes.buffers import Scratch
from warpsmith.processes.worker import die_with_parent, kill_tree
from warpsmith.records import Task
from warpsmith.tasks.load import load_task

Row = dict[str, Any]
STAGES = ("load", "limit", "inputs", "admission", "baselines", "profile")
LOG_LINES = 25  # of a process that ended without an outcome
OPTIONS = ("target", "cache", "bytes", "flops", "load_timeout", "memory_gb")  # passed on to a task's process


class RowFile:
    """The row of one task, written anew at each stage: what is killed leaves what it had."""

    def __init__(self, path: Path) -> None:
        self.path, self.row = path, Row(stage="load", seconds={})
        self.write()

    def write(self, **fields: Any) -> None:
        self.row |= fields
        aside = self.path.with_suffix(".new")
        aside.write_text(json.dumps(self.row))
        aside.replace(self.path)


def write_row(options: argparse.Namespace) -> None:
    """The side of a task's process. A bug ends it with its traceback."""
    die_with_parent(options.parent)
    file, path = RowFile(options.row), str(options.folder)
    try:
        with Scratch() as scratch:
            open_task(load(path, scratch, options, file), scratch, options, file)
    except (TaskError, UsageError) as error:
        file.write(outcome="refused", reason=str(error).replace(path, options.folder.name))
    except WarpsmithError as error:
        text = f"{type(error).__name__}: {error}".replace(path, options.folder.name)
        file.write(outcome="error", reason=text)


def load(path: str, scratch: Scratch, options: argparse.Namespace, file: RowFile) -> Task:
    """The task at its own sizes for a GPU, else at reduced ones."""
    start = time.monotonic()
    if options.target == "cuda":
        task = load_task(path, scratch=scratch, timeout=options.load_timeout)
    else:
        bounds = Bounds(options.bytes, 8 * options.bytes, options.flops)
        task = shrunk_task(path, bounds, scratch=scratch, timeout=options.load_timeout)
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


def run_task(path: Path, options: argparse.Namespace, stop: threading.Event) -> Row | None:
    """The row of one task, by a process of its own; None where the whole run's time is over."""
    start = time.monotonic()
    if stop.is_set() or start > options.until:
        return None
    with tempfile.TemporaryDirectory(prefix="level3-") as name:
        folder = Path(name)
        row_file, log = folder / "row.json", folder / "log.txt"
        cores = len(os.sched_getaffinity(0))
        shared = options.cache / "tmp"  # tasks side by side take turns on a GPU by a lock that lies there
        shared.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            process = subprocess.Popen(
                command(path, row_file, options), start_new_session=True, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, env=environment(shared, options.cache, cores),
            )  # fmt: skip
        limit = start + options.timeout
        try:
            ended = waited(process, min(limit, options.until), stop)
        finally:
            kill_tree(process)
        if not ended and (stop.is_set() or options.until < limit):
            return None
        row = json.loads(row_file.read_text()) if row_file.exists() else Row(stage="start", seconds={})
        lines = log.read_text(errors="replace").splitlines()
    row = {"task": f"{path.parent.name}/{path.stem}", **row, "total": round(time.monotonic() - start, 1)}
    if "outcome" in row:
        return row
    if not ended:
        return {**row, "outcome": "timeout", "reason": f"not done in {options.timeout:g} s: {row['stage']}"}
    reason = f"ended with code {process.returncode}: {row['stage']}"
    return {**row, "outcome": "error", "reason": reason, "log": lines[-LOG_LINES:]}


def command(path: Path, row: Path, options: argparse.Namespace) -> list[str]:
    passed = [f"--{name.replace('_', '-')}={getattr(options, name)}" for name in OPTIONS]
    child = [sys.executable, __file__, str(path), f"--row={row}", f"--parent={os.getpid()}", *passed]
    return [*child, "--baselines", *options.baselines]


def iterate_rows(todo: list[Path], options: argparse.Namespace) -> Iterator[Row]:
    """Rows as they are done; side by side, each task keeps to processors of its own."""
    lanes: queue.SimpleQueue[set[int]] = queue.SimpleQueue()
    for processors in divide(options.jobs, options.cores):
        lanes.put(processors)
    stop = threading.Event()
    pool = ThreadPoolExecutor(options.jobs, initializer=lambda: os.sched_setaffinity(0, lanes.get()))
    with pool:
        waiting = [pool.submit(run_task, path, options, stop) for path in todo]
        try:
            yield from filter(None, (done.result() for done in as_completed(waiting)))
        finally:
            stop.set()


def divide(jobs: int, cores: int | None) -> list[set[int]]:
    """Processors of each task: so many physical cores, by default as many as each can have. Raises UsageError."""
    everything = machine.affinity()
    if jobs == 1 and cores is None:
        return [set(everything)]
    if cores is not None:
        return slots(jobs, cores)
    for share in range(len(everything) // jobs, 0, -1):
        with contextlib.suppress(UsageError):
            return slots(jobs, share)
    return slots(jobs, 1)


def main() -> int:
    options = arguments()
    if options.row:
        write_row(options)
        return 0
    options.until, options.cache = time.monotonic() + options.seconds, options.cache.resolve()
    if options.memory_gb is None:
        options.memory_gb = psutil.virtual_memory().available / 2**30 / options.jobs
    file = options.out.with_suffix(".jsonl")
    file.parent.mkdir(parents=True, exist_ok=True)
    earlier = known_lines(options.known) if options.known else []
    rows = {row["task"]: row for row in (*earlier, *known_lines(file))}
    paths = {f"{p.parent.name}/{p.stem}": p for p in chosen(options)}
    todo = [p for name, p in paths.items() if name not in rows or rows[name]["outcome"] in options.retry]
    with file.open("a") as lines:
        for row in iterate_rows(todo, options):
            rows[row["task"]] = row = {**row, **conditions(options)}
            lines.write(json.dumps(row) + "\n")
            lines.flush()
            os.fsync(lines.fileno())
            print(f"{row['task']} ({row['total']} s): {row['outcome']} {row['reason']}", flush=True)
    page = markdown([rows[name] for name in paths if name in rows], len(paths.keys() - rows.keys()))
    options.out.with_suffix(".md").write_text(page)
    print(page)
    return int(any(name not in rows or rows[name]["outcome"] == "error" for name in paths))


def conditions(options: argparse.Namespace) -> Row:
    """What a row was measured with."""
    here = machine.describe(device=options.target)
    hardware = f"{here.device}, torch {here.torch}, Python {here.python}"
    return {
        "machine": hardware, "target": options.target, "jobs": options.jobs, "limit": options.timeout,
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
    lines += ["", "| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in sorted(rows, key=place)]
    return "\n".join(lines) + "\n"


def place(row: Row) -> tuple[str, int]:
    level, _, name = row["task"].partition("/")
    number = name.partition("_")[0]
    return level, int(number) if number.isdigit() else 0


def cells(row: Row) -> Iterable[str]:
    sizes = ", ".join(f"{name}={value}" for name, value in row.get("overrides", {}).items()) or "its own"
    stages = [f"{row['seconds'][s]:g}" if s in row["seconds"] else "" for s in STAGES]
    reason = row["reason"].replace("|", "\\|")
    outcome = f"{row['outcome']}: {reason}" if reason else row["outcome"]
    counted = [str(row.get("nodes", "")), str(row.get("gflop", ""))]
    return [row["task"], sizes, *counted, *stages, f"{row['total']:g}", outcome]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the folder that holds level3")
    parser.add_argument("--out", type=Path, default=Path("results/cpu/level3_open"))
    parser.add_argument("--known", type=Path, help="JSON lines of an earlier run")
    parser.add_argument("--cache", type=Path, required=True, help="folder for builds and measured peaks")
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--levels", type=int, nargs="+", default=[3])
    parser.add_argument("--only", nargs="+", help="tasks by level and number: level3/10 level3/43")
    parser.add_argument("--every", type=int, default=1, help="run every n-th task only")
    parser.add_argument("--retry", nargs="+", default=[], help="outcomes of earlier rows to run again: error")
    parser.add_argument("--baselines", nargs="+", default=["eager"])
    parser.add_argument("--jobs", type=int, default=1, help="tasks at a time")
    parser.add_argument("--cores", type=int, help="physical cores of each; an equal share by default")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for one task")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="seconds for all of them")
    parser.add_argument("--load-timeout", type=float, default=60.0, help="seconds for one export")
    parser.add_argument("--memory-gb", type=float, help="of each judge; an equal share by default")
    parser.add_argument("--bytes", type=float, default=64 << 20, help="least bytes of a reduced shape")
    parser.add_argument("--flops", type=float, default=5e9, help="operations of a reduced shape")
    parser.add_argument("--row", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--parent", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
