"""How often the judge claims a win where there is none, and whether it sees a small loss: the reference judged
against itself.

Each trial times one eager process as if it were a candidate against another eager process of the same module,
in fresh processes, over the same code path, rounds and statistics as a confirmation of a winner. A false win
is an interval that lies above 1. Two-sided intervals at 95 % would claim 2.5 %; the judge's are wider.

    python benchmarks/aa_honesty.py --trials 200 --json results/aa_honesty.json
    python benchmarks/aa_honesty.py --device cuda --trials 210 --json results/gpu/aa_honesty.json
    python benchmarks/aa_honesty.py --device cuda --slowdown 2 --trials 60

On CUDA the tasks run from 3 µs to 5 ms. With `--slowdown 2` the process under test does the same elementwise
operation on 2 % more rows, in about 50 µs. Its time is that of moving its bytes and a start-up that does not
grow, so it is slower by a little *less* than 2 %: what is found here would be found of 2 % all the more. A loss
is detected when the whole interval lies below 1.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from warpsmith import machine
from warpsmith.errors import UsageError, WarpsmithError
from warpsmith.judge.timing.bench import CONFIRM_ROUNDS, Bench
from warpsmith.judge.timing.interleaved_rounds import BaselineLost, ClocksDisagree
from warpsmith.judge.timing.timed_process import TimedProcess
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Ratio, Task
from warpsmith.tasks.client import TaskHost
from warpsmith.tasks.load import load_task

HERE = Path(__file__).parent
SUITE = HERE.parent / "src" / "warpsmith" / "tasks" / "suites" / "core"
EAGER, TWIN = "eager", "eager#2"

TEXT = """import torch

class Model(torch.nn.Module):
    def forward(self, {names}):
        return {call}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""
# Name → (call, shapes of x and y); the comment is about what it takes on an H200.
GPU_TASKS: dict[str, tuple[str, list[tuple[int, int]]]] = {
    "relu_64x1024": ("torch.relu(x)", [(64, 1024)]),  # 3 µs
    "softmax_4096x1024": ("torch.softmax(x, -1)", [(4096, 1024)]),  # 12 µs
    "relu_24000x1024": ("torch.relu(x)", [(24000, 1024)]),  # 50 µs
    "layer_norm_32768x1024": ("torch.nn.functional.layer_norm(x, (1024,))", [(32768, 1024)]),  # 0.1 ms
    "mm_2048": ("x @ y", [(2048, 2048), (2048, 2048)]),  # 0.4 ms
    "mm_5120": ("x @ y", [(5120, 5120), (5120, 5120)]),  # 5 ms
}
SLOWED = "relu_24000x1024"


def gpu_task(name: str, folder: Path, more: float = 0.0) -> Path:
    """A task's file; `more`: percent of rows that it has in addition."""
    call, shapes = GPU_TASKS[name]
    grown = [(round(rows * (1 + more / 100)), columns) for rows, columns in shapes]
    names = ["x", "y"][: len(shapes)]
    inputs = ", ".join(f"torch.randn({rows}, {columns})" for rows, columns in grown)
    file = folder / (f"{name}_more.py" if more else f"{name}.py")
    file.write_text(TEXT.format(names=", ".join(names), call=call, inputs=inputs))
    return file


class Benched:
    """A task's eager processes, and values for them."""

    def __init__(self, task: Task, stack: ExitStack, device: str, names: Sequence[str]) -> None:
        self.task, self.names, self.drawn = task, names, 0
        self.scratch = stack.enter_context(Scratch())
        self.host = stack.enter_context(TaskHost(task.source, scratch=self.scratch))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="warpsmith-aa-"))
        self.bench = Bench(
            task, scratch=self.scratch, workdir=Path(folder), threads=machine.threads(), device=device
        )
        stack.callback(self.bench.close)

    def fresh(self) -> Path:
        self.drawn += 1
        path = self.scratch.new("values")
        self.host.materialise(self.task.main, self.drawn, path)
        return path

    def restart(self) -> None:
        self.bench.close()
        self.bench.pool.start(self.names, fresh_values=self.fresh)

    def forget(self) -> None:
        for old in [*self.scratch.path.glob("values-*"), *self.scratch.path.glob("given-*")]:
            old.unlink()


class Slower(TimedProcess):
    """The process of a task with more rows, which has values of its own for each of the other's."""

    def __init__(self, process: TimedProcess, own: dict[Path, Path]) -> None:
        super().__init__("slower", process.worker, process.folder)
        self.own = own

    def prepare(self, values: Path, warmup: int, timeout: float = 120.0, alone: bool = True) -> float:
        return super().prepare(self.own[values], warmup, timeout, alone)


def trials(task: Task, slower: Task | None, options: argparse.Namespace, count: int) -> Iterator[Ratio | str]:
    """Ratios of the twin, or of the slower task, over eager; a string where a trial gave no measurement."""
    with ExitStack() as stack:
        names = (EAGER,) if slower else (EAGER, TWIN)
        left = Benched(task, stack, options.device, names)
        right = Benched(slower, stack, options.device, (EAGER,)) if slower else None
        benched = [b for b in (left, right) if b is not None]
        for trial in range(count):
            renewed = trial % options.per_process == 0
            if renewed:
                for each in benched:
                    each.restart()
            if renewed or options.device == "cpu":  # drawing large values takes longer than a trial on a GPU
                for each in benched:
                    each.forget()
                pairs = [[each.fresh() for each in benched] for _ in range(2)]
            tested = left.bench.pool.process(TWIN) if right is None else right.bench.pool.process(EAGER)
            if right is not None:
                tested = Slower(tested, dict(pairs))
            yield one(left.bench, tested, [pair[0] for pair in pairs], options.rounds, options.seconds)


def one(bench: Bench, tested: TimedProcess, values: list[Path], rounds: int, seconds: float) -> Ratio | str:
    try:
        run = bench.measure(
            tested, [bench.pool.process(EAGER)], values, rounds=rounds, target_seconds=seconds, checks=0
        )
    except (ClocksDisagree, BaselineLost) as error:
        return str(error)
    return run.timing.ratios[0]


def tasks(options: argparse.Namespace, folder: Path) -> list[tuple[Task, Task | None]]:
    """Tasks to time, each with its slower version where a loss is what is looked for."""
    if options.slowdown:
        files = [(gpu_task(SLOWED, folder), gpu_task(SLOWED, folder, options.slowdown))]
    elif options.tasks:
        files = [(file, None) for file in options.tasks]
    elif options.device == "cuda":
        files = [(gpu_task(name, folder), None) for name in GPU_TASKS]
    else:
        files = [(p, None) for p in sorted(SUITE.glob("*.py")) if not p.name.startswith("_")][:3]
    with Scratch() as scratch:
        return [
            (load_task(str(file), scratch=scratch), load_task(str(more), scratch=scratch) if more else None)
            for file, more in files
        ]


def summary(found: Sequence[Ratio | str]) -> dict[str, object]:
    ratios = [r for r in found if isinstance(r, Ratio)]
    return {
        "trials": len(found), "measured": len(ratios),
        "false_wins": sum(r.low > 1.0 for r in ratios), "losses": sum(r.high < 1.0 for r in ratios),
        "median_ratio": round(median(r.median for r in ratios), 5) if ratios else None,
        "half_width": round(sum(r.high - r.low for r in ratios) / max(1, len(ratios)) / 2, 5),
        "invalid": [r for r in found if isinstance(r, str)], "ratios": [r.model_dump() for r in ratios],
    }  # fmt: skip


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", type=Path, help="task files (default: three of suite core)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--slowdown", type=float, default=0.0, help="percent by which the tested side is slowed"
    )
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument(
        "--per-process", type=int, default=5, help="trials before the processes are started afresh"
    )
    parser.add_argument("--rounds", type=int, default=CONFIRM_ROUNDS)
    parser.add_argument("--seconds", type=float, default=1.0, help="target for each trial")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.slowdown and (options.device == "cpu" or options.tasks):
        raise UsageError("--slowdown has its own task, for --device cuda")
    return options


def main() -> None:
    options = arguments()
    report: dict[str, object] = {
        "machine": machine.describe(device=options.device).model_dump(), "device": options.device,
        "slowdown_percent": options.slowdown, "rounds": options.rounds, "seconds_per_trial": options.seconds,
    }  # fmt: skip
    start, found = time.monotonic(), {}
    with tempfile.TemporaryDirectory(prefix="warpsmith-aa-tasks-") as folder:
        wanted = tasks(options, Path(folder))
        for index, (task, slower) in enumerate(wanted):
            share = options.trials // len(wanted) + (index < options.trials % len(wanted))
            found[task.name] = made = summary(list(trials(task, slower, options, share)))
            print(
                f"{task.name:32} {made['measured']:4} measured  {made['false_wins']} false wins  "
                f"{made['losses']} losses  ratio {made['median_ratio']}  interval ±{made['half_width']:.1%}",
                flush=True,
            )
    measured, wins, losses = (
        sum(row[k] for row in found.values()) for k in ("measured", "false_wins", "losses")
    )
    report |= {
        "tasks": found, "trials": measured, "false_wins": wins, "losses": losses,
        "seconds": round(time.monotonic() - start, 1),
    }  # fmt: skip
    if options.slowdown:
        print(f"a loss in {losses} of {measured} trials of a known slowdown of {options.slowdown:g} %")
    else:
        print(f"{wins} false wins in {measured} trials")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    if measured == 0:
        raise WarpsmithError("no trial gave a measurement")


if __name__ == "__main__":
    main()
