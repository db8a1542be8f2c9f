"""Many candidates in one run, some of them crashing, hanging or corrupting: does anything leak, is a result lost?

    python benchmarks/endurance.py --count 1000 --out results/cpu/endurance.json
    python benchmarks/endurance.py --device cuda --count 200 --out results/h200/endurance.json
    python benchmarks/endurance.py --screen --count 300 --out results/cpu/endurance_screening.json

Judges candidates of one task, all of different code, in rounds of eight, a tenth of them hostile in five ways in turn,
and keeps every result in an archive. After the first round and at the end it counts processes, open files, resident
memory of the supervisor and of its workers, bytes of scratch and temporary files, and on CUDA the GPU's memory. With `--screen`
they are screened instead, in rounds of 24, and the rate a minute is told. Exits with 1 when a result is missing, a candidate came out otherwise than its kind, or something grew.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil

from warpsmith import machine
from warpsmith.archive import Archive
from warpsmith.executors.local import LocalExecutor
from warpsmith.judge.screening import ScreeningJudge
from warpsmith.machine import describe
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Candidate, Task
from warpsmith.targets.cpu import CpuTarget
from warpsmith.targets.cuda import CudaTarget
from warpsmith.targets.front_matter import FIRST_LINE, unit_from_source
from warpsmith.targets.target import Target
from warpsmith.tasks.load import load_task
from warpsmith.tasks.regions import make_region
from warpsmith.zoo.fixture import FOLDER

ROUND, SCREENED_ROUND, HOSTILE_EVERY, SEED = 8, 24, 10, 7
SERVER = "warpsmith.processes.fork_server"
EXPECTED = {
    "honest": {"ok", "screened"}, "crash": {"crashed"}, "hang": {"timeout"}, "memory": {"crashed", "incorrect", "timeout"},
    "corrupt": {"crashed", "incorrect"}, "wrong": {"incorrect"},
}  # fmt: skip
# Kind → what the honest softmax does besides (`zoo/fixtures`): a macro and its text.
CPU = {
    "crash": ("FIRST", "*(volatile int*)0 = 1;"),
    "hang": ("FIRST", "for (volatile long i = 0;; ++i) {}"),
    "memory": ("FIRST", "for (;;) { void* p = calloc(1 << 28, 1); memset(p, 1, 1 << 28); }"),
    "corrupt": ("LAST", "y[-1] = 0; y[R * N] = 0;"),
    "wrong": ("LAST", "y[3] += 1;"),
}
CUDA = {
    "crash": ("START", "*(volatile int*)0 = 1;"),
    "hang": ("START", "for (volatile long i = 0;; ++i) {}"),
    "memory": ("FIRST", "for (;;) { void* p = calloc(1 << 28, 1); memset(p, 1, 1 << 28); }"),
    "corrupt": ("END", "y[-1] = 0; y[R * N] = 0;"),
    "wrong": ("END", "o[3] += 1;"),
}


def kind_of(number: int) -> str:
    if number % HOSTILE_EVERY:
        return "honest"
    return list(CPU)[number // HOSTILE_EVERY % len(CPU)]


def candidate(number: int, task: Task, target: Target) -> Candidate:
    """The whole task as one unit, with code that no other number has."""
    cuda = target.name == "cuda"
    macros = [f"#define CANDIDATE_{number} 1"]
    if (kind := kind_of(number)) != "honest":
        macros.append("#define {} {}".format(*(CUDA if cuda else CPU)[kind]))
    base = (FOLDER / ("cuda/_softmax.cu" if cuda else "cpp/_softmax.cpp")).read_text()
    region = make_region(task.graph, [n.name for n in task.graph.nodes])
    unit = unit_from_source("\n".join([FIRST_LINE, *macros, base]), region)
    unit = unit.model_copy(update={"language": target.language})
    return Candidate(task_id=task.id, target=target.name, units=(unit,))


class Usage:
    """What this process and its children hold."""

    def __init__(self, folders: list[Path], device: str) -> None:
        self.folders, self.device, self.me = folders, device, psutil.Process()

    def now(self) -> dict[str, int]:
        children = self.me.children(recursive=True)
        found = {
            "processes": len(children),
            "zombies": sum(c.status() == psutil.STATUS_ZOMBIE for c in children if c.is_running()),
            "open_files": self.me.num_fds(),
            "supervisor_mb": self.me.memory_info().rss >> 20,
            "workers_mb": sum(c.memory_info().rss for c in children if c.is_running()) >> 20,
            "scratch_mb": sum(map(_size, self.folders)) >> 20,
        }
        return found | ({"gpu_mb": _gpu_mb()} if self.device == "cuda" else {})


ROOM = {  # what may be more at the end than after the first round
    "processes": 0, "zombies": 0, "open_files": 4, "supervisor_mb": 200, "workers_mb": 300, "scratch_mb": 50, "gpu_mb": 64
}  # fmt: skip


def _size(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file() and not p.is_symlink())


def _gpu_mb() -> int:
    values = machine.query_gpu(("memory.used",))
    assert values is not None, "nvidia-smi does not answer"
    return int(values[0])


def rounds(task: Task, target: Target, count: int, size: int) -> Iterator[list[tuple[int, Candidate]]]:
    for begin in range(1, count + 1, size):
        yield [(n, candidate(n, task, target)) for n in range(begin, min(begin + size, count + 1))]


def endure(count: int, device: str, folder: Path, screen: bool) -> dict[str, object]:
    target: Target = CudaTarget(folder / "cache") if device == "cuda" else CpuTarget(folder / "cache")
    archive = Archive(folder / "archive.db")
    with Scratch() as scratch:
        task = load_task(str(FOLDER / "tasks" / "softmax.py"), scratch=scratch)
        work = scratch.new("run")
        judge = ScreeningJudge(task, target, scratch=scratch, workdir=work, seed=SEED, baselines=("eager",))
        with judge:
            judge.open()
            archive.begin_run("endurance", task, device, SEED, {}, judge.environment)
            executor, usage = LocalExecutor(judge), Usage([scratch.path], device)
            first: dict[str, int] = {}
            outcomes: Counter[str] = Counter()
            surprises, started = [], time.monotonic()
            for chosen in rounds(task, target, count, SCREENED_ROUND if screen else ROUND):
                results = (executor.screen if screen else executor.run)([c for _, c in chosen])
                for (number, each), result in zip(chosen, results, strict=True):
                    archive.add_result("endurance", each, result)
                    outcomes[f"{kind_of(number)}: {result.status}"] += 1
                    if result.status not in EXPECTED[kind_of(number)]:
                        surprises.append(f"{number} {kind_of(number)}: {result.status} {result.reason}")
                first = first or usage.now()
                print(
                    f"{sum(outcomes.values())}/{count} {time.monotonic() - started:.0f}s {usage.now()}",
                    flush=True,
                )
            seconds, last = time.monotonic() - started, usage.now()
    kept = len(archive.run_entries("endurance"))
    children = psutil.Process().children(recursive=True)
    left = [
        c.name() for c in children if SERVER not in c.cmdline()
    ]  # which forks for as long as this process lives
    return {
        "count": count, "device": device, "screened": screen, "seconds": round(seconds),
        "a_minute": round(60 * count / seconds), "archived": kept,
        "outcomes": dict(sorted(outcomes.items())), "surprises": surprises, "after_first_round": first,
        "at_the_end": last, "grew": {k: last[k] - first[k] for k in last if last[k] - first[k] > ROOM[k]},
        "processes_left": left, "environment": describe(getattr(target, "compiler", None)).model_dump(),
        "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--screen", action="store_true", help="screen them, without a verdict")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="warpsmith-endurance-"))
    try:
        report = endure(args.count, args.device, folder, args.screen)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(report, indent=1))
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    lost = report["archived"] != args.count
    return 1 if lost or report["surprises"] or report["grew"] or report["processes_left"] else 0


if __name__ == "__main__":
    sys.exit(main())
