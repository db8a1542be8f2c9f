"""KernelBench's tasks through the whole loop on a CPU: export, admission, baselines, search, confirmation.

    python benchmarks/kernelbench_cpu.py KernelBench/KernelBench --cache /tmp/kb --out results/cpu/kernelbench \
        --levels 1 2 --budget 24 --time 60 --seed 0 --jobs 1 --cores 2

The folder is a checkout of github.com/ScalingIntelligence/KernelBench, which is fetched and never committed. Its shapes
are too large for a CPU; they are reduced by rule (`shrunk_task.py`), and each row says to what. Each task runs in a
process of its own, as `warpsmith optimize` would run it, and is killed with all it started after `--timeout`. `--jobs`
tasks run at a time, each on `--cores` physical cores of its own (one hyperthread of each); memory bandwidth and the last
cache they share. Builds, measured peaks and torch.compile's caches go to `--cache`.

Writes <out>.jsonl, one row a task as it is done (the same command goes on where it was stopped), and <out>.md.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from kernelbench_admission import chosen, facts, known_rows
from kernelbench_cpu_report import described, markdown, settings
from lanes import environment, slots, waited
from shrunk_task import Bounds, shrunk_task

from warpsmith.api import optimize_task
from warpsmith.archive.entries import Entry
from warpsmith.archive.store import Archive
from warpsmith.config import Config
from warpsmith.errors import TaskError, UsageError, WarpsmithError
from warpsmith.processes.buffers import Scratch
from warpsmith.processes.worker import die_with_parent, kill_tree
from warpsmith.progress import PlainObserver
from warpsmith.records import Budget, Candidate

Row = dict[str, Any]
LOG_LINES = 25  # of a process that ended without an answer
REASONS = 4  # ways to fail of a task's candidates, the most frequent


def write_row(options: argparse.Namespace) -> None:
    """The child's side: one task from file to summary. What is a bug ends this process with its traceback."""
    die_with_parent(options.parent)
    path, row = str(options.folder), Row()
    try:
        bounds = Bounds(options.bytes, 8 * options.bytes, options.flops)
        with Scratch() as scratch:
            task = shrunk_task(path, bounds, scratch=scratch, timeout=options.load_timeout)
        row |= {"overrides": task.main.overrides, **facts(task.graph)}
        row |= optimized(path, task.main.overrides, options)
    except (TaskError, UsageError) as error:
        row |= {"status": "refused", "reason": str(error)}
    except WarpsmithError as error:
        row |= {"status": "error", "reason": f"{type(error).__name__}: {error}"}
    row["reason"] = row["reason"].replace(path, options.folder.name)
    aside = options.row.with_suffix(".new")
    aside.write_text(json.dumps(row))
    aside.replace(options.row)


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


def one(path: Path, options: argparse.Namespace, stop: threading.Event) -> Row | None:
    """The row of one task, by a process of its own; None when no other is to be started."""
    start = time.monotonic()
    if stop.is_set() or start > options.until:
        return None
    with tempfile.TemporaryDirectory(prefix="kernelbench-cpu-") as name:
        folder = Path(name)
        row_file, log = folder / "row.json", folder / "log.txt"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command(path, row_file, options), start_new_session=True, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, env=environment(folder, options.cache, options.cores),
            )  # fmt: skip
        try:
            ended = waited(process, start + options.timeout, stop)
        finally:
            kill_tree(process)
        if stop.is_set() and not ended:
            return None
        row = json.loads(row_file.read_text()) if row_file.exists() else {}
        lines = log.read_text(errors="replace").splitlines()
    how = f"ended with code {process.returncode}" if ended else f"not done in {options.timeout:g} s"
    row = row or {"status": "error", "reason": how, "log": lines[-LOG_LINES:]}
    return {
        "task": f"{path.parent.name}/{path.stem}", **row, "seconds": round(time.monotonic() - start, 1),
        "machine": options.machine, "jobs": options.jobs, "cores": options.cores,
    }  # fmt: skip


def command(path: Path, row: Path, options: argparse.Namespace) -> list[str]:
    names = ("cache", "budget", "time", "seed", "bytes", "flops", "load_timeout", "memory_gb")
    given = [f"--{name.replace('_', '-')}={getattr(options, name)}" for name in names]
    child = [sys.executable, __file__, str(path), f"--row={row}", f"--parent={os.getpid()}", *given]
    return [*child, "--baselines", *options.baselines] if options.baselines else child


def rows_of(todo: list[Path], options: argparse.Namespace) -> Iterator[Row]:
    """Rows as they are done. Each thread, and so what it starts, keeps to the processors of one slot."""
    free: queue.SimpleQueue[set[int]] = queue.SimpleQueue()
    for processors in slots(options.jobs, options.cores):
        free.put(processors)
    stop = threading.Event()
    pool = ThreadPoolExecutor(options.jobs, initializer=lambda: os.sched_setaffinity(0, free.get()))
    with pool:
        waiting: list[Future[Row | None]] = [pool.submit(one, path, options, stop) for path in todo]
        try:
            for done in as_completed(waiting):
                row = done.result()
                if row is not None:
                    yield row
        finally:
            stop.set()


def main() -> int:
    options = arguments()
    if options.row:
        write_row(options)
        return 0
    options.until, options.machine = time.monotonic() + options.seconds, described()
    options.cache = options.cache.resolve()
    file = options.out.with_suffix(".jsonl")
    file.parent.mkdir(parents=True, exist_ok=True)
    rows, paths = known_rows(file), {f"{p.parent.name}/{p.stem}": p for p in chosen(options)}
    todo = [p for name, p in paths.items() if name not in rows or rows[name]["status"] in options.retry]
    with file.open("a") as lines:
        for row in rows_of(todo, options):
            lines.write(json.dumps(row) + "\n")
            lines.flush()
            os.fsync(lines.fileno())
            rows[row["task"]] = row
            print(f"{row['task']} ({row['seconds']} s): {row['status']} {row['reason']}", flush=True)
    left = sum(name not in rows for name in paths)
    text = markdown(list(rows.values()), settings(options), left)
    options.out.with_suffix(".md").write_text(text)
    print(text)
    return int(any(row["status"] == "error" or row.get("internal") for row in rows.values()))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the folder that holds level1, level2, …")
    parser.add_argument("--out", type=Path, default=Path("results/cpu/kernelbench"))
    parser.add_argument("--cache", type=Path, required=True, help="folder for builds and measured peaks")
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+", help="tasks by level and number: level1/23 level2/80")
    parser.add_argument("--every", type=int, default=1, help="run every n-th task only")
    parser.add_argument("--retry", nargs="+", default=[], help="statuses of earlier rows to run again: error")
    parser.add_argument("--budget", type=int, default=24, help="candidates to judge a task; 0: no limit")
    parser.add_argument("--time", type=float, default=60.0, help="seconds for a task, its set-up included")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--baselines", nargs="+", help="eager compile compile-max-autotune (all)")
    parser.add_argument("--jobs", type=int, default=1, help="tasks at a time")
    parser.add_argument("--cores", type=int, default=2, help="physical cores of each")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="start no task later; 0: only write the page"
    )
    parser.add_argument("--bytes", type=float, default=8 << 20, help="least bytes of a reduced shape")
    parser.add_argument("--flops", type=float, default=5e8, help="operations of a reduced shape")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds after which a task is killed")
    parser.add_argument("--load-timeout", type=float, default=60.0, help="seconds for one export")
    parser.add_argument("--memory-gb", type=float, default=16.0, help="memory of the task's own process")
    parser.add_argument("--row", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
