"""Tasks of a KernelBench checkout for a benchmark: which of them, at which reduced sizes, under which names."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from shrunk_task import Bounds

from warpsmith.records import Graph
from warpsmith.tasks.load import load_suite


def add_task_options(parser: argparse.ArgumentParser, levels: list[int]) -> None:
    parser.add_argument("folder", type=Path, help="the folder that holds level1, level2, …")
    parser.add_argument("--levels", type=int, nargs="+", default=levels)
    parser.add_argument("--only", nargs="+", help="tasks by level and number: level1/23 level3/10")
    parser.add_argument("--every", type=int, default=1, help="every n-th task only")


def add_size_options(parser: argparse.ArgumentParser, least_bytes: float, flops: float) -> None:
    parser.add_argument("--bytes", type=float, default=least_bytes, help="least bytes of a reduced shape")
    parser.add_argument("--flops", type=float, default=flops, help="operations of a reduced shape")
    parser.add_argument("--load-timeout", type=float, default=60.0, help="seconds for one export")


def choose_tasks(options: argparse.Namespace) -> dict[str, Path]:
    """Files by name: level1/23_Softmax."""
    files = [p for level in options.levels for p in load_suite(str(options.folder / f"level{level}"))]
    if options.only:
        files = [p for p in files if f"{p.parent.name}/{p.stem.split('_')[0]}" in options.only]
    return {f"{p.parent.name}/{p.stem}": p for p in files[:: options.every]}


def task_file(options: argparse.Namespace) -> Path:
    """The file of the item that a process was started for."""
    file: Path = options.folder / f"{options.item}.py"
    return file


def bounds_of(options: argparse.Namespace) -> Bounds:
    return Bounds(options.bytes, 8 * options.bytes, options.flops)


def describe_graph(graph: Graph) -> dict[str, Any]:
    inputs = [f"{i.spec.dtype}{list(i.spec.shape)}" for i in graph.inputs if i.role == "input"]
    return {"inputs": inputs, "bytes": graph.least_bytes, "flops": graph.flops}
