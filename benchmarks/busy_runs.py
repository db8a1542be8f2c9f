"""Whether a busy machine makes Warpsmith claim what a quiet one does not.

    python benchmarks/busy_runs.py --repeats 3 --spin 1 --time 120 --cache /tmp/cache --out results/cpu/busy_runs
    python benchmarks/busy_runs.py --device cuda --together 2 --repeats 3 --out results/h100/busy_runs

Runs `warpsmith optimize` on each named task of a suite, so many times quietly, and so many times beside processes that spin, one on each of
`--spin` processors. With `--together` so many runs go at once instead, which is how a GPU is shared. Every run has an archive and a seed of
its own: nothing is taken over from another. Builds, measured peaks and torch.compile's caches are shared in `--cache`.

Writes <out>.jsonl, one row a run as it is done (the same command goes on where it was stopped), and <out>.md. Ends with 1 where a claim of a
busy run contradicts the quiet ones: its whole interval lies above all of theirs over the same baseline.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from json_lines import append_line, known_lines
from lanes import run_limited
from pages import describe_machine, list_table, write_page
from suite_tasks import find_task

from warpsmith import machine
from warpsmith.records import Ratio, RunSummary
from warpsmith.records.intervals import describe_ratio, is_unknown

TASKS = (
    "softmax_middle", "layernorm_last", "reduce_sum_last", "elementwise_geglu", "rmsnorm_last", "matmul_low_rank_update"
)  # fmt: skip
QUIET, BUSY = "quiet", "busy"
LIMIT_FACTOR, LIMIT_EXTRA_S = 4, 600  # of a run's time: after so long it is killed
SPIN = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
LAST_LINES = 15
Row = dict[str, Any]


def main() -> int:
    options = arguments()
    file = options.out.with_suffix(".jsonl")
    for mode in options.modes:
        for repeat in range(options.repeats):
            for batch in list_batches(options, mode):
                run_batch(options, mode, repeat, batch, file)
    rows = known_lines(file)
    write_page(options.out.with_suffix(".md"), make_page(rows))
    return int(any(find_contradictions(rows).values()))


def list_batches(options: argparse.Namespace, mode: str) -> list[Sequence[str]]:
    """Tasks that are run at once: one quietly, `--together` otherwise."""
    size = options.together if mode == BUSY else 1
    return [options.tasks[i : i + size] for i in range(0, len(options.tasks), size)]


def run_batch(options: argparse.Namespace, mode: str, repeat: int, tasks: Sequence[str], file: Path) -> None:
    """Run a batch that has a row missing; those that run beside it for the load alone have their row already."""
    done = {(r["task"], r["mode"], r["repeat"]) for r in known_lines(file)}
    missing = [t for t in tasks if (t, mode, repeat) not in done]
    if not missing:
        return
    print(f"{mode} {repeat + 1}/{options.repeats}: {', '.join(tasks)}", file=sys.stderr, flush=True)
    # A batch of one is not alone: the task beside it is the same one, with another seed.
    beside = [missing[0]] * (options.together - len(tasks)) if mode == BUSY else []
    with spinning(options.spin if mode == BUSY else 0), ThreadPoolExecutor(len(tasks) + len(beside)) as pool:
        seeds = range(repeat, repeat + 1000 * (len(tasks) + len(beside)), 1000)
        rows = list(pool.map(lambda task, seed: run_once(options, task, seed), [*tasks, *beside], seeds))
    for task, row in zip(tasks, rows, strict=False):
        if task in missing:
            about = {"task": task, "mode": mode, "repeat": repeat, "machine": describe_machine()}
            append_line(file, about | row)


@contextlib.contextmanager
def spinning(count: int) -> Iterator[None]:
    """Keep so many processors busy, the first ones of those that there are."""
    processes = [
        subprocess.Popen([sys.executable, "-c", SPIN, str(cpu)]) for cpu in machine.affinity()[:count]
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run_once(options: argparse.Namespace, task: str, seed: int) -> Row:
    """The row of one run: its summary, or the last words of one that ended otherwise."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "summary.json"
        command = [
            sys.executable, "-m", "warpsmith", "optimize", str(find_task(task)), "--target", options.device, "--time", f"{options.time}s",
            "--budget", str(options.budget), "--seed", str(seed), "--archive", str(Path(folder) / "a.db"), "--json", str(out),
        ]  # fmt: skip
        command += ["--baselines", options.baselines] if options.baselines else []
        environment = os.environ | ({"WARPSMITH_CACHE": str(options.cache)} if options.cache else {})
        limit_s = LIMIT_FACTOR * options.time + LIMIT_EXTRA_S
        ended = run_limited(command, limit_s=limit_s, log=Path(folder) / "log", env=environment)
        summary = json.loads(out.read_text()) if out.exists() else None
    return {
        "seconds": round(ended.seconds, 1),
        "code": ended.code,
        "summary": summary,
        "log": ended.log[-LAST_LINES:],
    }


# ---------------------------------------------------------------- what the rows say


def make_page(rows: Sequence[Row]) -> str:
    tasks = list(dict.fromkeys(r["task"] for r in rows))
    contradictions = find_contradictions(rows)
    lines = []
    for task in tasks:
        quiet, busy = (list_summaries(rows, task, mode) for mode in (QUIET, BUSY))
        verdict = "; ".join(contradictions[task]) or ("yes" if list_claims(busy) else "nothing was claimed")
        lines.append(
            (task, *describe_mode(rows, task, quiet, QUIET), *describe_mode(rows, task, busy, BUSY), verdict)
        )
    columns = (
        "task", "quiet", "speedups", "of the limit", "busy", "speedups", "of the limit", "claims agree"
    )  # fmt: skip
    machines = ", ".join(dict.fromkeys(r["machine"] for r in rows))
    wrong = sum(map(len, contradictions.values()))
    claims = sum(len(list_claims(list_summaries(rows, t, BUSY))) for t in tasks)
    return "\n".join(
        [
            "# Runs on a busy machine", "", f"{wrong} of {claims} claims of busy runs contradict the quiet ones. {machines}.", "",
            *list_table(columns, lines), "",
        ]
    )  # fmt: skip


def list_summaries(rows: Sequence[Row], task: str, mode: str) -> list[RunSummary]:
    chosen = [r["summary"] for r in rows if (r["task"], r["mode"]) == (task, mode)]
    return [RunSummary.model_validate(s) for s in chosen if s is not None]


def list_claims(summaries: Sequence[RunSummary]) -> list[RunSummary]:
    return [s for s in summaries if s.status == "win" and s.best is not None]


def describe_mode(
    rows: Sequence[Row], task: str, summaries: Sequence[RunSummary], mode: str
) -> tuple[str, str, str]:
    """Statuses, speedups and shares of the limit, run by run."""
    lost = sum((r["task"], r["mode"]) == (task, mode) and r["summary"] is None for r in rows)
    statuses = [s.status for s in summaries] + ["no summary"] * lost
    counts = ", ".join(f"{statuses.count(s)} {s}" for s in dict.fromkeys(statuses))
    bests = [s.best for s in summaries if s.best is not None]
    speedups = "; ".join(f"{describe_ratio(b.speedup)} {b.speedup.baseline}" for b in bests)
    shares = ", ".join(f"{b.limit_share:.0%}" for b in bests if not is_unknown(b.speedup))
    return counts, speedups or "—", shares or "—"


def find_contradictions(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Task → what a busy run claims and no quiet one allows."""
    contradictions: dict[str, list[str]] = {}
    for task in dict.fromkeys(r["task"] for r in rows):
        quiet = list_summaries(rows, task, QUIET)
        claims = list_claims(list_summaries(rows, task, BUSY))
        contradictions[task] = [text for claim in claims if (text := contradict(claim, quiet))]
    return contradictions


def contradict(claim: RunSummary, quiet: Sequence[RunSummary]) -> str:
    """Say which claim no quiet run allows; empty where one does, or none measured the same baseline."""
    if claim.best is None:
        return ""
    ratio = claim.best.speedup
    measured = [r for s in quiet if (r := find_ratio(s, ratio.baseline)) is not None and not is_unknown(r)]
    if not measured or ratio.low <= max(r.high for r in measured):
        return ""
    return f"{describe_ratio(ratio)} {ratio.baseline} is above every quiet run"


def find_ratio(summary: RunSummary, baseline: str) -> Ratio | None:
    best = summary.best
    ratios = (best.speedup, best.speedup_eager, *best.ratios) if best is not None else ()
    return next((r for r in ratios if r.baseline == baseline), None)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), help="names of tasks in suites")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each task, quiet and busy")
    parser.add_argument(
        "--modes", nargs="+", choices=(QUIET, BUSY), default=[QUIET, BUSY], help="which runs; both"
    )
    parser.add_argument("--spin", type=int, help="processors that are kept busy; 1, or 0 with --together")
    parser.add_argument("--together", type=int, default=1, help="busy runs that go at once")
    parser.add_argument("--device", default="cpu", help="the target")
    parser.add_argument("--time", type=int, default=120, help="seconds of a run")
    parser.add_argument("--budget", type=int, default=60)
    parser.add_argument("--baselines", help="as of warpsmith optimize")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.spin = options.spin if options.spin is not None else int(options.together == 1)
    return options


if __name__ == "__main__":
    sys.exit(main())
