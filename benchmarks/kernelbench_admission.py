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
import os
import resource
import sys
from pathlib import Path
from typing import Any

from item_processes import Columns, Items, add_run_options, follow_parent, pass_on, seconds_left, write_row
from json_lines import known_rows
from kernelbench_admission_report import markdown
from kernelbench_tasks import (
    add_size_options,
    add_task_options,
    bounds_of,
    choose_tasks,
    describe_graph,
    task_file,
)
from lanes import divide
from pages import write_page
from shrunk_task import UNBOUNDED, shrunk_task

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
from warpsmith.records import Task

Row = dict[str, Any]
COLUMNS = Columns(item="task", seconds="seconds")
SEED = 20  # of everything drawn: the same shapes and values each time
TOLERANCES = {"1e-4": 1e-4, "1e-2": 1e-2}
TRIALS = 2  # of KernelBench's check; a mutant passes if it passes each


def try_task(path: str, options: argparse.Namespace) -> dict[str, Any]:
    """One row, computed in this process. Raises WarpsmithError."""
    bounds = UNBOUNDED if options.full else bounds_of(options)
    with Scratch() as scratch:
        task = shrunk_task(path, bounds, scratch=scratch, timeout=options.load_timeout)
        check_memory(task)
        with Workers(task, scratch, machine.threads(), options.device) as workers:
            evidence = Evidence(task, workers, scratch, SEED, 1 << 30)
            admission = admit(task, evidence, ADMISSION, SEED)
            accepted = kernelbench_accepts(task, evidence, options.device)
    return {
        "status": "admitted" if admission.admitted else "quarantined", "reason": "; ".join(admission.reasons),
        "admitted": admission.admitted, "reasons": admission.reasons, "mutants": admission.mutants,
        "kernelbench": accepted, "full": not task.main.overrides, "overrides": task.main.overrides,
        **describe_graph(task.graph),
    }  # fmt: skip


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


def measure_task(options: argparse.Namespace) -> Row:
    if options.device == "cpu":
        bytes_ = int(options.memory_gb * 2**30)
        resource.setrlimit(resource.RLIMIT_DATA, (bytes_, bytes_))  # each process it starts has the same
    file = task_file(options)
    try:
        return try_task(str(file), options)
    except WarpsmithError as error:
        return {"status": "refused", "reason": str(error).replace(str(file), file.name)}


def complete_row(row: Row, device: str) -> Row:
    """What was not tried is `refused`, for whatever reason."""
    refused = {} if "admitted" in row else {"refused": row["reason"]}
    return {**row, **refused, "device": device}


def main() -> int:
    options = arguments()
    if options.row:
        follow_parent(options)
        write_row(options, measure_task(options))
        return 0
    file = options.out.with_suffix(".jsonl")
    passed = pass_on(options, "device", "bytes", "flops", "load_timeout", "memory_gb", "full")
    items = Items(
        os.path.abspath(__file__), [str(options.folder), *passed], options.limit_s, divide(options.jobs, options.cores),
        seconds_left(options), COLUMNS, complete=lambda row: complete_row(row, options.device),
    )  # fmt: skip
    items.run_rest(list(choose_tasks(options)), file, options.retry)
    text = markdown(list(known_rows(file).values()), options.device, machine.describe())
    write_page(options.out.with_suffix(".md"), text)
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_task_options(parser, levels=[1, 2, 3])
    add_size_options(parser, 8 << 20, 5e8)
    add_run_options(parser, Path("results/cpu/kernelbench_admission"), limit_s=300.0)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--full", action="store_true", help="the task's own shapes")
    parser.add_argument("--memory-gb", type=float, default=12.0, help="private memory of each process (cpu)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
