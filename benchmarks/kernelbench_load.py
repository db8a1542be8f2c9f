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
from pathlib import Path
from typing import Any

from warpsmith import machine
from warpsmith.errors import WarpsmithError
from warpsmith.processes.buffers import Scratch
from warpsmith.tasks.load import load_suite, load_task


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
        "| task | s | nodes | shapes | result |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for row in rows:
        shapes = ", ".join(row.get("variants", ()))
        result = "; ".join(filter(None, ("loads", row["note"]))) if row["ok"] else f"refused: {row['reason']}"
        cells = (row["task"], f"{row['seconds']:.1f}", str(row.get("nodes", "")), shapes, result)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the folder that holds level1, level2, …")
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="load every n-th task only")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for each export")
    parser.add_argument("--only", nargs="+", help="tasks by level and number: level1/23 level3/10")
    parser.add_argument("--page", type=Path, help="write a table here")
    parser.add_argument("--json", type=Path, help="write the rows here")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with Scratch() as scratch, ThreadPoolExecutor(options.jobs) as pool:
        for level in options.levels:
            files = load_suite(str(options.folder / f"level{level}"))[:: options.every]
            if options.only:
                files = [p for p in files if f"{p.parent.name}/{p.stem.split('_')[0]}" in options.only]
            loaded = list(pool.map(lambda path: load_one(path, scratch, options.timeout), files))
            for row in loaded:
                if not row["ok"]:
                    print(f"FAILED {row['task']} ({row['seconds']} s): {row['reason']}", flush=True)
            seconds = sorted(row["seconds"] for row in loaded)
            several = sum(len(row.get("variants", ())) > 1 for row in loaded)
            print(
                f"level {level}: {sum(row['ok'] for row in loaded)} of {len(loaded)} load, "
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
