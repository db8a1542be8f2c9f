"""Which of KernelBench's tasks can tell right from wrong, by our oracle and by KernelBench's own tolerance.

    python benchmarks/kernelbench_admission.py KernelBench/KernelBench --out results/cpu/kernelbench_admission

The folder is a checkout of github.com/ScalingIntelligence/KernelBench, which is fetched and never committed.
Each task is tried in a process of its own, with limits of time and memory. Its mutants (zeros, a constant, a
stale replay, an input handed back, one op dropped, low-precision twins) are judged twice: by admission as in
the judge (sign-mixed and other families, fp64 oracle), and as KernelBench would, on the task's own inputs by
`torch.allclose` at 1e-4 (its fp32 tolerance) and 1e-2 (its half-precision one, and fp32 before v0.2). On a CPU
the shapes are reduced by rule (`shrunk_task.py`), and each row says to what; `--full` keeps them.

Writes <out>.jsonl, one row a task as it is done (the same command goes on where it was stopped), and <out>.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from json_lines import known_lines
from kernelbench_admission_report import markdown
from shrunk_task import UNBOUNDED, Bounds, shrunk_task

from warpsmith import machine
from warpsmith.errors import WarpsmithError
from warpsmith.judge.admission.admission import DROPPED_OPS, admit
from warpsmith.judge.correctness.evidence import Case, Evidence
from warpsmith.judge.correctness.input_families import OWN
from warpsmith.judge.correctness.plan import ADMISSION
from warpsmith.judge.correctness.workers import Workers
from warpsmith.judge.device.memory import check_memory
from warpsmith.judge.layout import output_names
from warpsmith.processes.buffers import Scratch
from warpsmith.processes.worker import kill_tree
from warpsmith.records import Graph, Task
from warpsmith.tasks.load import load_suite

SEED = 20  # of everything drawn: the same shapes and values each time
TOLERANCES = {"1e-4": 1e-4, "1e-2": 1e-2}
TRIALS = 2  # of KernelBench's check; a mutant passes if it passes each


def try_task(path: str, options: argparse.Namespace) -> dict[str, Any]:
    """One row, computed in this process. Raises WarpsmithError."""
    bounds = UNBOUNDED if options.full else Bounds(options.bytes, 8 * options.bytes, options.flops)
    with Scratch() as scratch:
        task = shrunk_task(path, bounds, scratch=scratch, timeout=options.load_timeout)
        check_memory(task)
        with Workers(task, scratch, machine.threads(), options.device) as workers:
            evidence = Evidence(task, workers, scratch, SEED, 1 << 30)
            admission = admit(task, evidence, ADMISSION, SEED)
            accepted = kernelbench_accepts(task, evidence, options.device)
    return {
        "admitted": admission.admitted, "reasons": admission.reasons, "mutants": admission.mutants,
        "kernelbench": accepted, "full": not task.main.overrides, "overrides": task.main.overrides,
        **facts(task.graph),
    }  # fmt: skip


def facts(graph: Graph) -> dict[str, Any]:
    given = [f"{i.spec.dtype}{list(i.spec.shape)}" for i in graph.inputs if i.role == "input"]
    return {"inputs": given, "bytes": graph.least_bytes, "flops": graph.flops}


def kernelbench_accepts(task: Task, evidence: Evidence, where: str) -> dict[str, str]:
    """Mutant → the smallest of KernelBench's tolerances at which it passes every trial, or "" for none.

    A stale replay has the same weights and another trial's inputs, as a caching ModelNew would.
    """
    import torch

    from warpsmith.judge.correctness.mutants import mutants
    from warpsmith.judge.correctness.reference import copied_to
    from warpsmith.judge.correctness.stepping import Stepper, on_device
    from warpsmith.runtime.tensors import open_tensors

    graph = task.graph if where == "cpu" else on_device(task.graph, where)
    specs, outputs = [i.spec for i in graph.inputs], output_names(graph)

    def own(seed: int) -> dict[str, torch.Tensor]:
        tensors = open_tensors(evidence.values(Case(task.main.name, OWN, seed)), specs)
        return {i.name: copied_to(t, where) for i, t in zip(graph.inputs, tensors, strict=True)}

    passed: dict[str, set[str]] = {}
    with torch.no_grad():
        for trial in range(TRIALS):
            values, other = own(SEED + 2 * trial), own(SEED + 2 * trial + 1)
            others = values | {i.name: other[i.name] for i in graph.inputs if i.role == "input"}
            right = Stepper(graph).run(values, outputs)
            for name, mutant in mutants(graph, outputs, values, others, DROPPED_OPS).items():
                made = mutant()
                now = {t for t, value in TOLERANCES.items() if alike(right, made, value)}
                passed[name] = passed.get(name, now) & now
    return {name: next((t for t in TOLERANCES if t in found), "") for name, found in passed.items()}


def alike(right: dict[str, Any], made: dict[str, Any], tolerance: float) -> bool:
    """torch.allclose on every output; KernelBench's tasks nearly all have one."""
    import torch

    return all(
        torch.allclose(t, made[o], atol=tolerance, rtol=tolerance)
        if t.is_floating_point()
        else torch.equal(t, made[o])
        for o, t in right.items()
    )


def one(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The row of one task, computed by a process of its own that is killed with all it started."""
    start, name = time.monotonic(), f"{path.parent.name}/{path.stem}"
    with tempfile.TemporaryDirectory(prefix="warpsmith-admission-") as folder:
        row_file = Path(folder) / "row.json"
        command = [sys.executable, __file__, str(path), "--row", str(row_file), *passed_on(options)]
        process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
        reason = ""
        try:
            process.wait(options.timeout)
        except subprocess.TimeoutExpired:
            reason = f"not done in {options.timeout:g} s"
        finally:
            kill_tree(process)
        row = json.loads(row_file.read_text()) if row_file.exists() and not reason else {}
    row = row or {"refused": reason or f"its process ended with code {process.returncode}"}
    return {"task": name, **row, "device": options.device, "seconds": round(time.monotonic() - start, 2)}


def passed_on(options: argparse.Namespace) -> list[str]:
    names = ("device", "bytes", "flops", "load_timeout", "memory_gb")
    given = [f"--{name.replace('_', '-')}={getattr(options, name)}" for name in names]
    return [*given, *(["--full"] if options.full else [])]


def write_row(options: argparse.Namespace) -> None:
    if options.device == "cpu":
        bytes_ = int(options.memory_gb * 2**30)
        resource.setrlimit(resource.RLIMIT_DATA, (bytes_, bytes_))  # each process it starts has the same
    try:
        row = try_task(str(options.folder), options)
    except WarpsmithError as error:
        row = {"refused": str(error).replace(str(options.folder), options.folder.name)}
    aside = options.row.with_suffix(".new")
    aside.write_text(json.dumps(row))
    aside.replace(options.row)


def known_rows(file: Path) -> dict[str, dict[str, Any]]:
    """Rows written before, by task."""
    return {row["task"]: row for row in known_lines(file)}


def chosen(options: argparse.Namespace) -> list[Path]:
    files = [p for level in options.levels for p in load_suite(str(options.folder / f"level{level}"))]
    if options.only:
        files = [p for p in files if f"{p.parent.name}/{p.stem.split('_')[0]}" in options.only]
    return files[:: options.every]


def main() -> int:
    options = arguments()
    if options.row:
        write_row(options)
        return 0
    file = options.out.with_suffix(".jsonl")
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = known_rows(file)
    todo = [p for p in chosen(options) if f"{p.parent.name}/{p.stem}" not in rows]
    with file.open("a") as lines, ThreadPoolExecutor(options.jobs) as pool:
        for row in pool.map(lambda path: one(path, options), todo):
            lines.write(json.dumps(row) + "\n")
            lines.flush()
            os.fsync(lines.fileno())
            rows[row["task"]] = row
            state = row.get("refused") or ("admitted" if row["admitted"] else "; ".join(row["reasons"]))
            print(f"{row['task']} ({row['seconds']} s): {state}", flush=True)
    text = markdown(list(rows.values()), options.device, machine.describe())
    options.out.with_suffix(".md").write_text(text)
    print(text)
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the folder that holds level1, level2, …")
    parser.add_argument("--out", type=Path, default=Path("results/cpu/kernelbench_admission"))
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", nargs="+", help="tasks by level and number: level1/23 level2/80")
    parser.add_argument("--every", type=int, default=1, help="try every n-th task only")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--full", action="store_true", help="the task's own shapes")
    parser.add_argument("--bytes", type=float, default=8 << 20, help="least bytes of a reduced shape")
    parser.add_argument("--flops", type=float, default=5e8, help="operations of a reduced shape")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one task")
    parser.add_argument("--load-timeout", type=float, default=60.0, help="seconds for one export")
    parser.add_argument("--memory-gb", type=float, default=12.0, help="private memory of each process (cpu)")
    parser.add_argument("--row", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
