"""Pack the CUDA units in `authored/` with their KernelBench tasks as one bundle, to be judged on a machine with a GPU.

In: a checkout of KernelBench, whose files are exported at their own shapes, and the units beside this file: `level1_23_Softmax.cu` is for
`KernelBench/level1/23_Softmax.py`. Out: a bundle, the tasks with the least bytes first, so that a short lease of a GPU judges the most. It is the
same as `warpsmith bundle create OUT --target cuda --unit TASK=FILE …` makes. No GPU and no nvcc are needed; exporting allocates no tensor.

The judge holds inputs, results and their oracle in host memory several times over, and refuses what does not fit. With `--memory GIB` a task that
needs more gets its batch divided by the least power of two that fits; the bundle's task says so in its overrides, and so does what is printed.

    python lab/authored.py KERNELBENCH OUT [--memory GIB] [--only NAME] [--canary N] [--author NAME]
    warpsmith bundle run OUT --out results --limit-time 25m        # where the GPU is
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from math import ceil, inf, log2
from pathlib import Path

from warpsmith.bundles.bundle import Bundle, make_bundle
from warpsmith.bundles.gather import Gathered
from warpsmith.errors import UsageError, WarpsmithError
from warpsmith.judge.device.memory import estimate_bytes
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Task
from warpsmith.tasks.load import load_task, read_source
from warpsmith.tasks.source import constants, parse

UNITS = Path(__file__).parent / "authored"
TIMEOUT = 120.0  # seconds for each export
BATCH = "batch_size"  # the constant that is made smaller


def unit_files(only: Sequence[str] = ()) -> list[Path]:
    """The units whose names hold one of `only`, or all. Raises UsageError where there is none."""
    found = [f for f in sorted(UNITS.glob("level*_*.cu")) if not only or any(o in f.stem for o in only)]
    if not found:
        raise UsageError(f"no unit in {UNITS} has {' or '.join(only)} in its name")
    return found


def task_file(kernelbench: Path, unit: Path) -> Path:
    """The task that a unit is named after, in a checkout or in its folder of levels. Raises UsageError."""
    level, _, name = unit.stem.partition("_")
    for root in (kernelbench / "KernelBench", kernelbench):
        if (path := root / level / f"{name}.py").is_file():
            return path
    raise UsageError(f"{kernelbench} holds no {level}/{name}.py: give a checkout of KernelBench")


def load_within(file: Path, scratch: Scratch, memory: float) -> Task:
    """The task at its own shapes, or with the batch divided so that judging takes `memory` bytes at the most.

    Raises TaskError, and UsageError where there is no batch to divide.
    """
    task = load_task(str(file), scratch=scratch, timeout=TIMEOUT)
    excess = estimate_bytes(task.graph, "cuda") / memory
    if excess <= 1:
        return task
    batch = constants(parse(read_source(str(file)).text, str(file))).get(BATCH)
    fewer = batch // 2 ** ceil(log2(excess)) if isinstance(batch, int) else 0
    if fewer >= 1:
        task = load_task(str(file), scratch=scratch, overrides={BATCH: fewer}, timeout=TIMEOUT)
    if estimate_bytes(task.graph, "cuda") > memory:  # parameters have no batch
        raise UsageError(
            f"{file} cannot be judged in so little memory by a smaller {BATCH}: give more, or leave it out"
        )
    return task


def pack(
    kernelbench: Path, units: Sequence[Path], author: str = "", canaries: int = 0, memory: float = inf
) -> Bundle:
    """A bundle of each unit as one candidate for its task. Raises UsageError, TaskError, BundleError."""
    pairs: list[tuple[Task, Path]] = []
    files = [task_file(kernelbench, unit) for unit in units]
    with Scratch() as scratch:
        for file, unit in zip(files, units, strict=True):
            pairs.append((load_within(file, scratch, memory), unit))
            print(_line(*pairs[-1]), flush=True)
    gathered = Gathered("cuda")
    for task, unit in sorted(pairs, key=lambda pair: pair[0].graph.least_bytes):
        gathered.add_units(task, [unit], author)
    return make_bundle("cuda", gathered.tasks.values(), gathered.candidates.values(), canaries=canaries)


def _line(task: Task, unit: Path) -> str:
    changed = "".join(f"   {name} = {value}" for name, value in task.variants[0].overrides.items())
    needed = f"{estimate_bytes(task.graph, 'cuda') / 2**30:6.1f} GiB to judge"
    return f"{unit.stem:58s} {task.graph.least_bytes / 2**20:7.0f} MiB moved at least {needed}{changed}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kernelbench", type=Path, help="a checkout of KernelBench")
    parser.add_argument("out", type=Path, help="a new folder, or a file that ends in .tar.gz")
    parser.add_argument(
        "--only", action="append", default=[], help="units with this in their name; repeatable"
    )
    parser.add_argument(
        "--memory", type=float, default=inf, help="GiB of host memory that judging a task may need"
    )
    parser.add_argument("--canary", type=int, default=0, help="candidates to judge again at the end")
    parser.add_argument("--author", default="", help="whom the candidates are recorded under")
    given = parser.parse_args(arguments)
    if not given.memory > 0:
        parser.error("--memory is a number of GiB above 0")
    if given.out.exists():
        parser.error(f"{given.out} is there already: name a new folder or file")
    try:
        bundle = pack(
            given.kernelbench, unit_files(given.only), given.author, given.canary, given.memory * 2**30
        )
        bundle.write(given.out)
    except WarpsmithError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    size = sum(map(len, bundle.files.values()))
    print(
        f"wrote {given.out}: {len(bundle.tasks)} tasks, {len(bundle.candidates)} candidates, {size >> 10} KiB unpacked"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
