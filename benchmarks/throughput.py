"""How long a candidate takes from source to verdict and timing, and where a run's wall time goes.

    python benchmarks/throughput.py [--budget 24] [--out results/throughput.json] [TASK …]

Runs the whole pipeline on small tasks (or on those named) with an archive and a build cache of its own, so that nothing is taken from earlier runs, and
prints (a) the median wall seconds a candidate takes: the time from one result to the next, builds included, and (b) the share of
wall time outside build, judge and baselines. Limits asked for: 1.5 s and 5% on two cores.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import tempfile
import time
from pathlib import Path

from warpsmith.api import optimize_task
from warpsmith.config import Config
from warpsmith.machine import describe
from warpsmith.progress import SilentObserver
from warpsmith.records import Budget

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "src/warpsmith/tasks/suites/core"
SMALL = {  # tasks of suite core at 0.5 to 2 MB
    "reduce_sum_last": {"rows": 512}, "softmax_middle": {"batch": 1}, "rmsnorm_last": {"rows": 256}
}  # fmt: skip


class Stamps(SilentObserver):
    """Notes when each result came."""

    def __init__(self) -> None:
        self.at: list[float] = []
        self.searching: float | None = None

    def stage(self, text: str) -> None:
        if text.startswith("searching"):
            self.searching = time.monotonic()

    def evaluated(
        self, done: int, total: int | None, status: str, best_text: str, seconds_left: float | None
    ) -> None:
        self.at.append(time.monotonic())


def measure(task: str, budget: int, folder: Path) -> dict[str, object]:
    stamps = Stamps()
    config = Config.load({"archive": folder / "archive.db", "cache": folder / "cache"})
    summary = optimize_task(
        task, budget=Budget(evaluations=budget, seconds=None), seed=0, config=config, observer=stamps
    )
    begin = stamps.searching or stamps.at[0]
    each = (stamps.at[-1] - begin) / len(stamps.at)
    inside = sum(summary.seconds_by_stage.values())
    return {
        "task": summary.task, "status": summary.status, "evaluations": summary.evaluations,
        "seconds": summary.seconds, "seconds_by_stage": summary.seconds_by_stage,
        "seconds_per_candidate": round(each, 3), "outside_share": round(1 - inside / summary.seconds, 4),
    }  # fmt: skip


def small_copy(name: str, sizes: dict[str, int], folder: Path) -> str:
    """A task of suite core with other values for some of its constants."""
    text = (CORE / f"{name}.py").read_text()
    for constant, value in sizes.items():
        text = re.sub(rf"^{constant} = \d+$", f"{constant} = {value}", text, count=1, flags=re.MULTILINE)
    path = folder / f"{name}_small.py"
    path.write_text(text)
    return str(path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--budget", type=int, default=24)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as small:
        tasks = args.tasks or [small_copy(*item, Path(small)) for item in SMALL.items()]
        for task in tasks:
            with tempfile.TemporaryDirectory() as folder:
                rows.append(measure(task, args.budget, Path(folder)))
            print(json.dumps(rows[-1]), flush=True)
    report = {
        "median_seconds_per_candidate": statistics.median(r["seconds_per_candidate"] for r in rows),
        "worst_outside_share": max(r["outside_share"] for r in rows),
        "environment": describe().model_dump(), "date": time.strftime("%Y-%m-%d"), "tasks": rows,
    }  # fmt: skip
    print(json.dumps({k: v for k, v in report.items() if k != "tasks"}, indent=1))
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
