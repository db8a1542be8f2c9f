"""Own small modules at served sizes through `warpsmith.optimize` on a GPU, in half precision.

    python benchmarks/gpu_blocks.py --time 90s --evaluations 12 --jobs 3 --limit-s 400 --out gpu_blocks.jsonl

A Llama-like decoder layer and a ViT block with each backend of scaled dot product attention, `nn.MultiheadAttention`,
`nn.TransformerEncoderLayer`, a U-Net residual block, a ConvNeXt block, and two-layer Llama and GPT-2 of transformers with
and without a returned cache. Each runs in a process of its own, `--jobs` side by side: what runs beside a timing can only
be told from it where the judge locks the GPU, so numbers to report come from `--jobs 1`. A row holds the status, the
speedup, the report, seconds by stage, and whether the returned module gives the same classes and values as a copy of the
original on the example inputs and on fresh ones. An item that fails is a row with its error; the rest go on, and the
same command goes on where it was stopped. `--only "vit-block MATH"` chooses, `--list` names the items, `--retry error
timeout` runs rows with such a status again, and `--summary` prints the rows that there are.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from gpu_blocks_models import Item, items
from item_processes import Items, Row, add_run_options, follow_parent, pass_on, seconds_left, write_row
from json_lines import known_rows
from lanes import divide
from model_zoo_page import format_speedup
from optimized_module import SEARCH_OPTIONS, add_search_options, measure_item

from warpsmith import machine


def main() -> int:
    options = parse_arguments()
    if options.row:
        follow_parent(options)
        item = next(item for item in items() if item.name == options.item)
        write_row(options, measure_block(item, options))
        return 0
    names = [item.name for item in items() if not options.only or item.name in options.only]
    if options.list:
        print("\n".join(names))
        return 0
    if not options.summary:
        run_items(names, options)
    rows = known_rows(options.out, "item")
    print_summary([rows[name] for name in names if name in rows])
    return int(
        any(name not in rows or rows[name]["status"] in ("error", "wrong", "timeout") for name in names)
    )


def run_items(names: list[str], options: argparse.Namespace) -> None:
    """Beside a GPU all items share the processors, so that what compiles is not held to a few."""
    everything = [set(machine.affinity())] * options.jobs
    lanes = everything if options.cores is None else divide(options.jobs, options.cores)
    passed = pass_on(options, "target", *SEARCH_OPTIONS)
    runs = Items(os.path.abspath(__file__), passed, options.limit_s, lanes, seconds_left(options))
    runs.run_rest(names, options.out, options.retry)


def measure_block(item: Item, options: argparse.Namespace) -> Row:
    import torch

    cuda = options.target == "cuda" and torch.cuda.is_available()
    row: Row = {
        "dtype": str(item.dtype).removeprefix("torch."), "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if cuda else "cpu",
    }  # fmt: skip
    return row | measure_item(
        lambda: item.make_module(options.target),
        lambda module, seed: item.inputs(module, item.dtype, seed),
        options,
        options.target,
    )


def print_summary(rows: list[Row]) -> None:
    """One line a row, and the seconds of its stages."""
    for row in rows:
        answers = {k: row[k] for k in ("example", "fresh", "example_changed") if row.get(k)}
        same = "differs" if answers else "same answer" if "example" in row else "not called"
        text = row.get("report") if row["status"] == "win" else row["reason"]
        print(f"{row['item']}: {row['status']}, {format_speedup(row)}, {same}, {row['wall_s']} s: {text}")
        stages = {name: round(seconds, 1) for name, seconds in row.get("seconds_by_stage", {}).items()}
        details: list[Any] = [answers, stages, (row.get("traceback") or [])[-3:], (row.get("log") or [])[-3:]]
        for detail in filter(None, details):
            print(f"    {detail}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", help="items by name")
    parser.add_argument("--list", action="store_true", help="print the names of the items")
    parser.add_argument(
        "--summary", action="store_true", help="print the rows that there are, and run nothing"
    )
    parser.add_argument("--target", choices=["cuda", "cpu"], default="cuda")
    add_search_options(parser, time_s=90.0, evaluations=12, baselines=None)
    add_run_options(parser, Path("gpu_blocks.jsonl"), limit_s=400.0)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
