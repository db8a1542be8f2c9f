"""How often the judge claims a win where there is none: the reference judged against itself.

Each trial times one eager process as if it were a candidate against another eager process of the same module,
in fresh processes, over the same code path, rounds and statistics as a confirmation of a winner. A false win
is an interval that lies above 1. Two-sided intervals at 95 % would claim 2.5 %; the judge's are wider.

    python benchmarks/aa_honesty.py --trials 200 --json results/aa_honesty.json
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from warpsmith import machine
from warpsmith.errors import WarpsmithError
from warpsmith.judge.bench import CONFIRM_ROUNDS, Bench
from warpsmith.judge.session import BaselineLost, ClocksDisagree
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Ratio, Task
from warpsmith.tasks.client import TaskHost
from warpsmith.tasks.load import load_task

HERE = Path(__file__).parent
SUITE = HERE.parent / "src" / "warpsmith" / "tasks" / "suites" / "core"
EAGER, TWIN = "eager", "eager#2"


def trials(task: Task, count: int, per_process: int, rounds: int, seconds: float) -> Iterator[Ratio | str]:
    """Ratios of the twin over eager; a string where a trial gave no measurement."""
    with (
        Scratch() as scratch,
        TaskHost(task.source, scratch=scratch) as host,
        tempfile.TemporaryDirectory(prefix="warpsmith-aa-") as folder,
    ):
        drawn = 0

        def fresh() -> Path:
            nonlocal drawn
            drawn += 1
            path = scratch.new("values")
            host.materialise(task.main, drawn, path)
            return path

        bench = Bench(task, scratch=scratch, workdir=Path(folder), threads=machine.threads())
        try:
            for trial in range(count):
                if trial % per_process == 0:
                    bench.close()
                    bench.start((EAGER, TWIN), fresh_values=fresh)
                yield one(bench, [fresh(), fresh()], rounds, seconds)
                for old in [*scratch.path.glob("values-*"), *scratch.path.glob("given-*")]:
                    old.unlink()
        finally:
            bench.close()


def one(bench: Bench, values: list[Path], rounds: int, seconds: float) -> Ratio | str:
    try:
        run = bench.measure(
            bench.baseline(TWIN),
            [bench.baseline(EAGER)],
            values,
            rounds=rounds,
            target_seconds=seconds,
            checks=0,
        )
    except (ClocksDisagree, BaselineLost) as error:
        return str(error)
    return run.timing.ratios[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", type=Path, help="task files (default: three of suite core)")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument(
        "--per-process", type=int, default=5, help="trials before the processes are started afresh"
    )
    parser.add_argument("--rounds", type=int, default=CONFIRM_ROUNDS)
    parser.add_argument("--seconds", type=float, default=1.0, help="target for each trial")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    files = options.tasks or sorted(p for p in SUITE.glob("*.py") if not p.name.startswith("_"))[:3]
    report = {"machine": machine.describe().model_dump(), "rounds": options.rounds, "tasks": {}}
    start, false_wins, measured = time.monotonic(), 0, 0
    for index, file in enumerate(files):
        share = options.trials // len(files) + (index < options.trials % len(files))
        with Scratch() as scratch:
            task = load_task(str(file), scratch=scratch)
        found = list(trials(task, share, options.per_process, options.rounds, options.seconds))
        ratios = [r for r in found if isinstance(r, Ratio)]
        wins = [r for r in ratios if r.low > 1.0]
        false_wins, measured = false_wins + len(wins), measured + len(ratios)
        report["tasks"][task.name] = {
            "trials": len(found), "false_wins": len(wins), "false_losses": sum(r.high < 1.0 for r in ratios),
            "invalid": [r for r in found if isinstance(r, str)], "ratios": [r.model_dump() for r in ratios],
        }  # fmt: skip
        width = sum(r.high - r.low for r in ratios) / max(1, len(ratios)) / 2
        print(
            f"{task.name:32} {len(ratios):4} measured  {len(wins)} false wins  interval ±{width:.1%}",
            flush=True,
        )
    report |= {"trials": measured, "false_wins": false_wins, "seconds": round(time.monotonic() - start, 1)}
    print(f"{false_wins} false wins in {measured} trials")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    if measured == 0:
        raise WarpsmithError("no trial gave a measurement")


if __name__ == "__main__":
    main()
