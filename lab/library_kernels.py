"""Which kernels torch's own ways run a task with, and how long each takes: what a candidate's kernels have to beat, one by one.

    python lab/library_kernels.py --out results/h200/library_kernels.jsonl decoder_prefill_bf16 vit_block_bf16 …

In: names of tasks in suites, or files, and a GPU. Each way (eager, `torch.compile`, `torch.compile` with max-autotune) is warmed up and profiled
in a process of its own; between two calls a buffer larger than the L2 cache is written. Out: JSON lines, a task and way each, with µs a call of each kernel in
the order of their first start, and OUT.md. **No judge takes part**: sums of kernels leave out the gaps between them.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import benchmarks_on_path  # noqa: F401
import torch
from json_lines import append_line, known_lines
from pages import list_table, write_page
from suite_tasks import find_task

WAYS: dict[str, dict[str, Any] | None] = {
    "eager": None,
    "compile": {},
    "max-autotune": {"mode": "max-autotune-no-cudagraphs"},
}
WARM_UP, CALLS = 3, 10
FLUSH_BYTES = 256 << 20
FLUSHING = "FillFunctor"  # part of the name of the kernel that writes the buffer
Row = dict[str, Any]


def main() -> int:
    options = parse_arguments()
    for task in options.tasks:
        for way in options.ways:
            if not any(r["task"] == task.stem and r["way"] == way for r in known_lines(options.out)):
                expect_gpu()
                with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                    append_line(options.out, pool.submit(profile, task, way).result())
    write_page(options.out.with_suffix(".md"), make_page(known_lines(options.out)))
    return 0


def expect_gpu() -> None:
    """End the program with a line where there is no GPU."""
    if not torch.cuda.is_available():
        raise SystemExit("this times kernels on an NVIDIA GPU, and torch finds none here")


def profile(task: Path, way: str) -> Row:
    """Run a task's module one way on the GPU; return µs a call of each kernel, by the order of their first start."""
    names: dict[str, Any] = {"__name__": "task"}
    exec(compile(task.read_text(), str(task), "exec"), names)
    torch.manual_seed(0)
    model = names["Model"](*names["get_init_inputs"]()).cuda().eval()
    inputs = [v.cuda() if isinstance(v, torch.Tensor) else v for v in names["get_inputs"]()]
    options = WAYS[way]
    call = model if options is None else torch.compile(model, **options)
    buffer = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.no_grad():
        for _ in range(WARM_UP):
            call(*inputs)
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=activities) as profiler:
            for _ in range(CALLS):
                buffer.fill_(1)
                call(*inputs)
            torch.cuda.synchronize()
    events = sorted(profiler.events(), key=lambda e: e.time_range.start)
    on_gpu = [e for e in events if e.device_type == torch.autograd.DeviceType.CUDA]
    kernels = sum_kernels([(e.name, e.time_range.elapsed_us()) for e in on_gpu])
    return {"task": task.stem, "way": way, "device": torch.cuda.get_device_name(), "torch": torch.__version__, "kernels": kernels}  # fmt: skip


def sum_kernels(events: Sequence[tuple[str, float]]) -> list[tuple[str, float, float]]:
    """Return of each kernel its name, launches a call and µs a call; what writes the buffer between calls is left out."""
    sums: dict[str, list[float]] = {}
    for name, us in events:
        if FLUSHING not in name:
            sums.setdefault(name, []).append(us)
    return [(name, len(each) / CALLS, round(sum(each) / CALLS, 2)) for name, each in sums.items()]


def make_page(rows: Sequence[Row]) -> str:
    lines = ["# Kernels of torch's own ways", ""]
    machines = ", ".join(dict.fromkeys(f"{r['device']}, torch {r['torch']}" for r in rows))
    lines += [f"{machines}; µs a call, the L2 cache flushed before each.", ""]
    for row in rows:
        total = sum(us for _, _, us in row["kernels"])
        lines += [f"## {row['task']}, {row['way']}: {total:.0f} µs in kernels", ""]
        cells = [(name[:100], f"{count:g}", f"{us:.1f}") for name, count, us in row["kernels"]]
        lines += [*list_table(("kernel", "launches", "µs"), cells), ""]
    return "\n".join(lines)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="+", type=find_task, help="files, or names of tasks in suites")
    parser.add_argument("--ways", nargs="+", choices=tuple(WAYS), default=list(WAYS))
    parser.add_argument(
        "--out", type=Path, required=True, help="JSON lines to write; the page lies beside it"
    )
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
