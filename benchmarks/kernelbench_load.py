"""How many of KernelBench's tasks load: `python benchmarks/kernelbench_load.py KernelBench/KernelBench
[--levels 1 2 3] [--jobs 2] [--page results/cpu/level3_load.md]`.

The folder is a checkout of github.com/ScalingIntelligence/KernelBench, which is fetched and never
committed; two tasks of level 3 need the package einops. Each file is loaded as a user's would be: in its own
confined process, under fake tensors, with its variants. Prints one line per failure, a count per level and
how many loaded within the time; exits 1 when a task of level 1 or 2 does not load.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Any

from kernelbench_tasks import add_task_options, choose_tasks
from pages import list_table

from warpsmith import machine
from warpsmith.errors import WarpsmithError
from warpsmith.processes.buffers import Scratch
from warpsmith.tasks.load import load_task


def load_one(path: Path, scratch: Scratch, timeout: float) -> dict[str, Any]:
    """One row: name, seconds, and either what loaded or why it did not."""
    start = time.monotonic()
    row: dict[str, Any] = {"task": f"{path.parent.name}/{path.stem}"}
    try:
        task = load_task(str(path), scratch=scratch, timeout=timeout)
        row |= {
            "ok": True,
            "nodes": len(task.graph.nodes),
            "variants": [v.name for v in task.variants],
            "note": task.note.replace(str(path), path.name),
        }
        row["ops"] = sorted({n.op for n in task.graph.nodes})
    except WarpsmithError as error:
        row |= {"ok": False, "reason": str(error).replace(str(path), path.name)}
    return row | {"seconds": round(time.monotonic() - start, 2)}


def page(rows: list[dict[str, Any]]) -> str:
    """A table of every task."""
    here, loaded = machine.describe(), sum(row["ok"] for row in rows)
    lines = [
        "# KernelBench's tasks, loaded", "",
        f"{date.today().isoformat()}: {here.cpu}, torch {here.torch}, Python {here.python}. "
        f"{loaded} of {len(rows)} load, each in a process of its own, with its other shapes.", "",
    ]  # fmt: skip
    return (
        "\n".join([*lines, *list_table(("task", "s", "nodes", "shapes", "result"), map(cells, rows))]) + "\n"
    )


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    shapes = ", ".join(row.get("variants", ()))
    result = "; ".join(filter(None, ("loads", row["note"]))) if row["ok"] else f"refused: {row['reason']}"
    return row["task"], f"{row['seconds']:.1f}", str(row.get("nodes", "")), shapes, result


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_task_options(parser, levels=[1, 2, 3])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for each export")
    parser.add_argument("--page", type=Path, help="write a table here")
    parser.add_argument("--json", type=Path, help="write the rows here")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with Scratch() as scratch, ThreadPoolExecutor(options.jobs) as pool:
        for level, group in groupby(choose_tasks(options).values(), lambda file: file.parent.name):
            loaded = list(pool.map(lambda path: load_one(path, scratch, options.timeout), group))
            for row in loaded:
                if not row["ok"]:
                    print(f"FAILED {row['task']} ({row['seconds']} s): {row['reason']}", flush=True)
            seconds = sorted(row["seconds"] for row in loaded)
            several = sum(len(row.get("variants", ())) > 1 for row in loaded)
            print(
                f"{level}: {sum(row['ok'] for row in loaded)} of {len(loaded)} load, "
                f"{several} with other shapes; median {seconds[len(seconds) // 2]} s, most {seconds[-1]} s",
                flush=True,
            )
            rows += loaded
    in_time = sum(row["ok"] and row["seconds"] <= options.timeout for row in rows)
    print(f"{in_time} of {len(rows)} load, each within {options.timeout:g} s with its variants")
    if options.page:
        options.page.write_text(page(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return int(any(not row["ok"] and row["task"].startswith(("level1", "level2")) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
