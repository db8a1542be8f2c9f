"""Own small modules at served sizes through `warpsmith.optimize` on a GPU, in half precision.

    python benchmarks/gpu_blocks.py --seconds 90 --evaluations 12 --jobs 3 --limit-s 400 --out gpu_blocks.jsonl

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
import tempfile
from pathlib import Path
from typing import Any

from gpu_blocks_models import Item, items
from item_processes import Items, Row, add_item_options, follow_parent, write_row
from json_lines import known_lines
from model_zoo import copy_peaks
from model_zoo_page import format_speedup
from optimized_module import describe_error, measure_module

from warpsmith.config import Config
from warpsmith.records import Budget


def main() -> int:
    options = parse_arguments()
    if options.item:
        follow_parent(options)
        item = next(item for item in items() if item.name == options.item)
        write_row(options, measure_item(item, options))
        return 0
    names = [item.name for item in items() if not options.only or item.name in options.only]
    if options.list:
        print("\n".join(names))
        return 0
    if not options.summary:
        options.cache.mkdir(parents=True, exist_ok=True)
        child = [
            f"--{name}={getattr(options, name)}"
            for name in ("seconds", "evaluations", "seed", "cache", "target")
        ]
        child += ["--baselines", *options.baselines] if options.baselines else []
        Items(os.path.abspath(__file__), child, options.limit_s, options.jobs).run_rest(
            names, options.out, options.retry
        )
    rows = {row["item"]: row for row in known_lines(options.out)}  # the last row of an item counts
    print_summary([rows[name] for name in names if name in rows])
    return int(
        any(name not in rows or rows[name]["status"] in ("error", "wrong", "timeout") for name in names)
    )


def measure_item(item: Item, options: argparse.Namespace) -> Row:
    """The row of one module; what goes wrong before `optimize` is called is an error, too."""
    import torch

    device = "cuda" if options.target == "cuda" else "cpu"
    row: Row = {"dtype": str(item.dtype).removeprefix("torch."), "torch": torch.__version__}
    folder = Path(tempfile.gettempdir())  # the parent gave this process a folder of its own
    config = Config.load(
        {"archive": folder / "archive.db", "cache": folder / "cache", "baselines": options.baselines}
    )
    copy_peaks(options.cache, config.cache)
    try:
        row["device"] = torch.cuda.get_device_name() if device == "cuda" else "cpu"
        module = item.make_module(device)
        row |= measure_module(
            module, lambda seed: item.inputs(module, item.dtype, seed), target=options.target,
            budget=Budget(seconds=options.seconds, evaluations=options.evaluations or None), config=config,
            seed=options.seed,
        )  # fmt: skip
    except Exception as error:  # noqa: BLE001 - every outcome is a row
        row |= describe_error(error)
    copy_peaks(config.cache, options.cache)
    return row


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
    parser.add_argument("--seconds", type=float, default=90.0, help="for the search of one item")
    parser.add_argument("--evaluations", type=int, default=12, help="candidates to judge; 0: no limit")
    parser.add_argument("--jobs", type=int, default=1, help="items side by side")
    parser.add_argument(
        "--limit-s", type=float, default=400.0, help="seconds after which an item is given up"
    )
    parser.add_argument("--baselines", nargs="+", help="eager compile compile-max-autotune (all)")
    parser.add_argument("--target", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--retry", nargs="+", default=[], help="statuses of earlier rows to run again")
    parser.add_argument("--out", type=Path, default=Path("gpu_blocks.jsonl"))
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "warpsmith-gpu-blocks",
        help="folder for what is measured of this machine once",
    )  # fmt: skip
    add_item_options(parser)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
