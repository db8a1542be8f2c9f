"""How fast a search goes: seconds to the first candidates, candidates a minute by tier, where the time goes, how idle the GPU is.

    python benchmarks/inner_loop.py --device cuda --time 60 --out results/h100/inner_loop softmax_middle … path/to/task.py …

Runs `warpsmith optimize` on each task, one after another, each with an archive of its own, and reads what it prints as it comes. A task
is a file, or the name of one in a suite. Seconds to the first screened and the first judged candidate count from the start of the command.
Rates are of the search alone, without set-up and confirmation. On a GPU the share of the command in which no kernel ran is
sampled from the driver. What screening said of each candidate that was judged is kept beside the verdict: the page says how many of
these were correct, and how well estimates rank what was measured.

With `--against KERNELBENCH_CHECKOUT` (a GPU only) KernelBench's own `eval_kernel_against_ref` is timed first, on the kernel and the task of
`against_kernelbench.py`; the task is then one of those that are searched, and the page has both rates.

Writes <out>.jsonl, one row a run as it is done (the same command goes on where it was stopped), and <out>.md.

With `--published ROWS` (`results/h200/kernelbench.jsonl`) the page compares searches of KernelBench tasks with the rows of a campaign;
with `--repeats` it says whether runs of a task agree.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from against_kernelbench import TASK as KERNELBENCH_TASK
from against_kernelbench import expect_checkout, theirs
from inner_loop_pages import list_published, list_repeats, read_published
from json_lines import append_line, known_lines
from pages import describe_machine, list_table, write_page
from suite_tasks import find_task

from warpsmith.archive.store import Archive
from warpsmith.executors.landscape_data import rank_correlation
from warpsmith.records import RunSummary
from warpsmith.records.intervals import describe_ratio

LIMIT_FACTOR, LIMIT_EXTRA_S = 3, 300  # of a run's time: after so long it is killed
SAMPLE_MS = 200  # between two looks at the GPU
SEARCHING = "searching"
KERNELBENCH = "kernelbench"  # key of the row of its own evaluation
MOST_FAILURES = 8  # of a run that are told
LAST_LINES = 60
Row = dict[str, Any]


def main() -> int:
    options = parse_arguments()
    file = options.out.with_suffix(".jsonl")
    if options.against and not split_rows(known_lines(file))[1]:
        append_line(file, {KERNELBENCH: measure_kernelbench(options.against, options.theirs)})
    for repeat in range(options.repeats):
        for task in options.tasks:
            runs, _ = split_rows(known_lines(file))
            if not any(r["task"] == task.stem and r["repeat"] == repeat for r in runs):
                row = {"task": task.stem, "repeat": repeat, "machine": describe_machine()}
                append_line(file, row | measure(options, task, options.seed + repeat))
    runs, kernelbench = split_rows(known_lines(file))
    published = read_published(options.published) if options.published is not None else None
    write_page(options.out.with_suffix(".md"), make_page(runs, kernelbench, published))
    return int(any(r["summary"] is None for r in runs))


def split_rows(rows: Sequence[Row]) -> tuple[list[Row], Row | None]:
    """Return the rows of runs, and what was measured of KernelBench."""
    kernelbench = next((r[KERNELBENCH] for r in rows if KERNELBENCH in r), None)
    return [r for r in rows if KERNELBENCH not in r], kernelbench


def measure_kernelbench(root: Path, count: int) -> Row:
    """Time KernelBench's own evaluation in a process that leaves nothing on the GPU."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(theirs, root, root / KERNELBENCH_TASK, count).result()


def measure(options: argparse.Namespace, task: Path, seed: int) -> Row:
    """One run: when what was printed, its summary, and what screening and verdicts said of the same candidates."""
    with tempfile.TemporaryDirectory() as folder:
        out, archive = Path(folder) / "summary.json", Path(folder) / "archive.db"
        command = [
            sys.executable, "-m", "warpsmith", "optimize", str(task), "--target", options.device, "--time", f"{options.time}s",
            "--budget", "10000", "--seed", str(seed), "--archive", str(archive), "--json", str(out),
        ]  # fmt: skip
        environment = os.environ | ({"WARPSMITH_CACHE": str(options.cache)} if options.cache else {})
        with watch_gpu(options.device) as busy:
            lines, seconds = run_stamped(
                command, environment, LIMIT_FACTOR * options.time + LIMIT_EXTRA_S, Path(folder) / "out"
            )
        summary = json.loads(out.read_text()) if out.exists() else None
        verdicts = list_verdicts(archive, summary["run_id"]) if summary is not None else []
        failures = list_failures(archive, summary["run_id"]) if summary is not None else []
    return {
        "seconds": round(seconds, 1), **find_moments(lines), "summary": summary, "verdicts": verdicts, "failures": failures,
        "gpu_idle": round(1 - sum(busy) / len(busy), 3) if busy else None,
        "log": [f"{at:.1f} {text}" for at, text in lines[-LAST_LINES:]],
    }  # fmt: skip


def run_stamped(
    command: Sequence[str], environment: dict[str, str], limit_s: float, out: Path
) -> tuple[list[tuple[float, str]], float]:
    """Run a command; return the lines of its standard error with the seconds at which they came, and how long it took."""
    begin, lines = time.monotonic(), list[tuple[float, str]]()
    with out.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, text=True, env=environment)
        killer = threading.Timer(limit_s, process.kill)
        killer.start()
        assert process.stderr is not None
        lines += [(time.monotonic() - begin, line.rstrip()) for line in process.stderr]
        process.wait()
        killer.cancel()
    return lines, time.monotonic() - begin


@contextlib.contextmanager
def watch_gpu(device: str) -> Iterator[list[float]]:
    """Collect the share of each sample's period in which some kernel ran; empty on a CPU."""
    shares: list[float] = []
    if device != "cuda":
        yield shares
        return
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    command = ["nvidia-smi", "-i", visible, "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    process = subprocess.Popen([*command, "-lms", str(SAMPLE_MS)], stdout=subprocess.PIPE, text=True)

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with contextlib.suppress(ValueError):
                shares.append(float(line) / 100)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield shares
    finally:
        process.terminate()
        reader.join()


def find_moments(lines: Sequence[tuple[float, str]]) -> Row:
    """Seconds at which the task was loaded, the search began, and the first candidate of either tier was done."""
    counts = [
        (at, int(text[7:].split("/")[0].split(":")[0])) for at, text in lines if text.startswith("judged ")
    ]
    return {
        "loaded_s": next((at for at, text in lines if text.startswith("measuring what")), None),
        "search_began_s": next((at for at, text in lines if text == SEARCHING), None),
        "first_screened_s": next((at for at, text in lines if " screened, " in text), None),
        "first_judged_s": next((at for at, count in counts if count > 0), None),
    }  # fmt: skip


def list_verdicts(archive: Path, run_id: str) -> list[Row]:
    """What screening estimated and the verdict measured, of each candidate of a run that has both."""
    with contextlib.closing(Archive(archive)) as opened:
        entries = opened.run_entries(run_id, as_judged=True)
    screened = {e.candidate.content_key: e.result for e in entries if e.result.status == "screened"}
    verdicts = [e for e in entries if e.result.status != "screened" and e.kind == "search"]
    return [
        {
            "candidate": e.candidate.lineage.branch, "status": e.result.status, "reason": e.result.reason,
            "estimate": before.promise.median if before.promise is not None else None,
            "measured": e.result.speedup.median if e.result.speedup is not None else None,
            "estimate_us": before.timing.median_us if before.timing is not None else None,
            "measured_us": e.result.timing.median_us if e.result.timing is not None else None,
            "units": [
                [f"{u.family}/{u.technique}", u.region.title, e.result.timing.unit_us[u.region.id]]
                for u in e.candidate.units if e.result.timing is not None and u.region.id in e.result.timing.unit_us
            ],
        }
        for e in verdicts if (before := screened.get(e.candidate.content_key)) is not None
    ]  # fmt: skip


def list_failures(archive: Path, run_id: str) -> list[Row]:
    """Why candidates of a run were no good: each status with its first reason, the candidate of it and how many there were, the most frequent first."""
    with contextlib.closing(Archive(archive)) as opened:
        entries = opened.run_entries(run_id, as_judged=True)
    failed = [e for e in entries if e.result.status not in ("screened", "ok")]
    counts = Counter((e.result.status, e.candidate.lineage.branch) for e in failed)
    reasons = {(e.result.status, e.candidate.lineage.branch): e.result.reason for e in reversed(failed)}
    return [
        {"candidate": branch, "status": status, "count": count, "reason": reasons[status, branch]}
        for (status, branch), count in counts.most_common(MOST_FAILURES)
    ]


# ---------------------------------------------------------------- what the rows say


def make_page(
    rows: Sequence[Row], kernelbench: Row | None = None, published: Mapping[str, Row] | None = None
) -> str:
    done = [r for r in rows if r["summary"] is not None]
    verdicts = [v for r in rows for v in r["verdicts"]]
    correct = sum(v["status"] == "ok" for v in verdicts)
    columns = (
        "task", "first screened", "first judged", "screened a minute", "judged a minute", "judged", "loading", "set-up", "search",
        "confirmation", "idle", "outcome",
    )  # fmt: skip
    rates = [rate for r in done if (rate := find_rate(r, r["summary"].get("screened", 0)))]
    machines = ", ".join(dict.fromkeys(r["machine"] for r in rows))
    lines = [
        "# The inner loop", "", f"{len(done)} of {len(rows)} runs ended with a summary. {machines}.", "",
        f"Median of {len(rates)} searches: {median(rates):.0f} candidates screened a minute." if rates else "Nothing was screened.",
        f"Of {len(verdicts)} candidates that passed screening and were judged, {correct} were correct. {describe_ranks(done)}", "",
        *([describe_kernelbench(kernelbench, done), ""] if kernelbench is not None else []),
        *list_table(columns, [describe_row(r) for r in rows]), "", *list_kernel_times(rows), *list_reasons(rows), *list_repeats(done),
        *(list_published(done, published) if published is not None else []),
    ]  # fmt: skip
    return "\n".join(lines)


def describe_kernelbench(kernelbench: Row, done: Sequence[Row]) -> str:
    """Say both rates on the one task that both had."""
    name, answers = Path(KERNELBENCH_TASK).stem, kernelbench["answers"]
    correct = sum("correctness=True" in answer for answer in answers)
    rates = []
    for tier, count in (("screened", "screened"), ("judged", "evaluations")):
        each = [
            rate for r in done if r["task"] == name and (rate := find_rate(r, r["summary"].get(count, 0)))
        ]
        rates += [f"{median(each):.1f} {tier} a minute"] if each else []
    return (
        f"On {name}, KernelBench's own `eval_kernel_against_ref` takes {60 / kernelbench['seconds_per_candidate']:.1f} candidates a minute "
        f"(median of {len(answers)}, {correct} of them correct), each compiled through `load_inline`; here: {', '.join(rates) or 'none'}."
    )


def describe_row(row: Row) -> tuple[str, ...]:
    if row["summary"] is None:
        return (row["task"], *["—"] * 10, "; ".join(row["log"][-1:]))
    summary = RunSummary.model_validate(row["summary"])
    rates = [find_rate(row, n) for n in (summary.screened, summary.evaluations)]
    best = f" {describe_ratio(summary.best.speedup)} {summary.best.speedup.baseline}" if summary.best else ""
    phases = summary.seconds_by_phase
    return (
        row["task"], *(_seconds(row[k]) for k in ("first_screened_s", "first_judged_s")),
        *(f"{rate:.0f}" if rate else "—" for rate in rates), str(summary.evaluations), _seconds(row["loaded_s"]),
        *(_seconds(phases.get(p)) for p in ("set-up", "search", "confirmation")),
        "—" if row["gpu_idle"] is None else f"{row['gpu_idle']:.0%}", f"{summary.status}{best}",
    )  # fmt: skip


def list_kernel_times(rows: Sequence[Row]) -> list[str]:
    """Write lines of Markdown: of each run the kernels of its quickest candidate with a verdict, alone, beside the whole."""
    lines = []
    for row in rows:
        timed = [v for v in row["verdicts"] if v["measured_us"] and v.get("units")]
        quickest = min(timed, key=lambda v: v["measured_us"], default=None)
        for kernel, region, us in sorted(quickest["units"], key=lambda u: -u[2]) if quickest else ():
            lines.append((row["task"], region, kernel, f"{us:.1f}", f"{us / quickest['measured_us']:.0%}"))
    if not lines:
        return []
    table = list_table(("task", "region", "kernel", "alone, µs", "share of the whole"), lines)
    return ["Kernels of each run's quickest candidate, each timed alone:", "", *table, ""]


def list_reasons(rows: Sequence[Row]) -> list[str]:
    """Write lines of Markdown: why candidates failed, in screening or under the judge."""
    lines = [
        (r["task"], f["candidate"], str(f["count"]), f["status"], f["reason"])
        for r in rows
        for f in r.get("failures", [])
    ]
    if not lines:
        return []
    table = list_table(("task", "candidate", "times", "status", "first reason"), lines)
    return ["Candidates that failed:", "", *table, ""]


def find_rate(row: Row, count: int) -> float | None:
    """Candidates a minute of the search."""
    seconds = RunSummary.model_validate(row["summary"]).seconds_by_phase.get("search", 0.0)
    return 60 * count / seconds if seconds > 0 else None


def describe_ranks(rows: Sequence[Row]) -> str:
    """The median over the runs of how estimated times rank what was measured: speedups are over one baseline first, over another later."""
    ranks = []
    for row in rows:
        times = [(v.get("estimate_us"), v.get("measured_us")) for v in row["verdicts"]]
        pairs = [(a, b) for a, b in times if a and b]
        rank = rank_correlation([a for a, _ in pairs], [b for _, b in pairs])
        ranks += [rank] if rank == rank else []
    return (
        f"Rank correlation of estimated with measured times: {median(ranks):.2f} (median of {len(ranks)} runs)."
        if ranks
        else ""
    )


def _seconds(value: float | None) -> str:
    return "—" if value is None else f"{value:.0f} s"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="*", help="files, or names of tasks in suites")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--time", type=int, default=60, help="seconds of each search")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0, help="of the first repeat")
    parser.add_argument("--cache", type=Path, help="folder for builds and measured peaks")
    parser.add_argument("--out", type=Path, required=True, help="files to write, without their ending")
    parser.add_argument(
        "--against", type=Path, metavar="KERNELBENCH_CHECKOUT", help="time its own evaluation, too"
    )
    parser.add_argument(
        "--published", type=Path, metavar="ROWS", help="rows of a campaign of KernelBench to compare with"
    )
    parser.add_argument("--theirs", type=int, default=2, help="candidates of that")
    options = parser.parse_args()
    options.tasks = [find_task(name) for name in options.tasks]
    if options.against is not None:
        if options.device != "cuda":
            raise SystemExit("--against needs --device cuda: KernelBench's evaluation runs on a GPU")
        options.tasks.append(expect_checkout(options.against))
    if options.published is not None and not options.published.is_file():
        raise SystemExit(
            f"{options.published} is no file: name the rows of a campaign, such as results/h200/kernelbench.jsonl"
        )
    if not options.tasks:
        raise SystemExit("name a task, or a checkout of KernelBench with --against")
    return options


if __name__ == "__main__":
    raise SystemExit(main())
