"""Whole models from end to end, as a user would: `warpsmith.optimize_model`, then beside eager and `torch.compile`.

    python benchmarks/models.py --size small --time 2m --page results/cpu/models.md --out results/cpu/models.jsonl
    python benchmarks/models.py --size full --device cuda --time 10m --limit-s 3000 --out models.jsonl --page models.md

Eight workloads (`models_workloads.py`): generation with Llama, its cache growing or of a fixed size, the loss of a GPT-2, ViT, ResNet in evaluation and for a
training step's gradients, a step of a diffusion U-Net (`pip install diffusers`), Mamba. `--only llama vit` chooses, `--size`
is `tiny` for tests, `small` for two CPU cores, `full` as served. Each runs in a process of its own; the same command goes
on where it was stopped, and `--retry too-busy error` runs rows with such a status again. `--archive FILE` keeps winners
from one call to the next.

The composed model, the composed model under `torch.compile`, the original, and it under `torch.compile` (default and
`max-autotune`, or with `--variants` also `reduce-overhead`) run side by side in random order. So does the original once more: where two equal models differ, or nothing
can be told apart, the row is "too-busy", whatever else it says. Every one of them is compared with the original under the
judge's error budgets, and by tokens and losses. A row holds the predicted and the measured gain, each region with what
became of it, and what was captured.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from item_processes import (
    Items,
    Row,
    add_run_options,
    follow_parent,
    pass_on,
    read_seconds,
    seconds_left,
    write_row,
)  # fmt: skip
from lanes import divide
from models_page import render_page
from models_workloads import SIZES, workloads
from pages import describe_machine, write_page

PASSED = ("size", "device", "time", "measure", "variants", "baselines", "archive", "seed", "cache")
VARIANTS = ("compile", "max-autotune", "composed-compiled")
ALL_VARIANTS = (*VARIANTS, "reduce-overhead")


def main() -> int:
    options = parse_arguments()
    if options.row:
        follow_parent(options)
        write_row(options, measure_item(options))
        return 0
    names = [w.name for w in workloads() if not options.only or w.name in options.only]
    items = [f"{name} {options.size}" for name in names]
    runs = Items(
        os.path.abspath(__file__), pass_on(options, *PASSED), options.limit_s, divide(options.jobs, options.cores),
        seconds_left(options),
    )  # fmt: skip
    rows = runs.run_rest(items, options.out, options.retry)
    if options.page:
        write_page(options.page, render_page(rows, describe_command(options), len(items) - len(rows)))
    return int(any(row["status"] in ("error", "wrong", "timeout") for row in rows))


def measure_item(options: argparse.Namespace) -> Row:
    """The row of one workload; every outcome is one."""
    import torch
    from models_measuring import Session, describe_versions
    from optimized_module import copy_peaks, describe_error

    from warpsmith import machine
    from warpsmith.config import Config

    workload = next(w for w in workloads() if w.name == options.item.split()[0])
    folder = Path(tempfile.gettempdir())  # the parent gave this process a folder of its own
    config = Config.load(
        {"archive": options.archive or folder / "archive.db", "cache": folder / "cache", "baselines": options.baselines}
    )  # fmt: skip
    copy_peaks(options.cache, config.cache)
    began_s = time.monotonic()
    row: Row = {
        "family": workload.family, "size": options.size, "device": options.device,
        "hardware": torch.cuda.get_device_name() if options.device == "cuda" else describe_machine(),
        "threads": config.threads or machine.threads(), "load_before": os.getloadavg()[0],
        "date": datetime.now(UTC).date().isoformat(), "versions": describe_versions(),
    }  # fmt: skip
    try:
        model = workload.make_model(options.size, options.device)
        session = Session(
            workload, model, options, config, lambda stage: write_row(options, row | {"stage": stage})
        )
        row |= session.measure()
    except Exception as error:  # noqa: BLE001 - every outcome is a row
        row |= describe_error(error)
    finally:
        copy_peaks(config.cache, options.cache)
    return row | {"load_after": os.getloadavg()[0], "seconds": round(time.monotonic() - began_s, 1)}


def describe_command(options: argparse.Namespace) -> str:
    """The command as anyone would give it, without this machine's paths."""
    words: list[Any] = ["python benchmarks/models.py", f"--size {options.size}", f"--device {options.device}"]
    words += [f"--time {options.time:g}s", f"--measure {options.measure:g}s"]
    words += [f"--only {' '.join(options.only)}"] if options.only else []
    words += [f"--variants {' '.join(options.variants)}"] if tuple(options.variants) != VARIANTS else []
    words += [f"--baselines {' '.join(options.baselines)}"] if options.baselines else []
    return " ".join(words)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [w.name for w in workloads()]
    parser.add_argument("--only", nargs="+", choices=names, help="workloads by name")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--time", type=read_seconds, default=120.0, help="for the searches of one model: 90s, 10m"
    )
    parser.add_argument(
        "--measure", type=read_seconds, default=30.0, help="to measure all variants side by side"
    )
    parser.add_argument(
        "--variants",
        nargs="*",
        choices=ALL_VARIANTS,
        default=list(VARIANTS),
        help="beside eager; reduce-overhead has CUDA graphs without autotuning",
    )
    parser.add_argument(
        "--baselines",
        nargs="+",
        default=None,
        help="of the regions' searches: eager compile compile-max-autotune (all)",
    )
    parser.add_argument("--archive", type=Path, help="keeps winners; else each model starts from nothing")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "warpsmith-benchmarks",
        help="folder for what is measured of this machine once",
    )  # fmt: skip
    parser.add_argument("--page", type=Path, help="write the rows as a page of markdown")
    add_run_options(parser, Path("models.jsonl"), limit_s=1200.0)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
