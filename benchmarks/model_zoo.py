"""80 model classes that people have, unchanged, through `warpsmith.optimize` on a CPU.

    python benchmarks/model_zoo.py --time 20s --evaluations 6 --out results/cpu/model_zoo.jsonl \
        --page results/cpu/model_zoo.md

Models of transformers, torchvision and timm (`pip install 'warpsmith[zoo]'`) are built from small configurations with
random weights: nothing is downloaded. Each is called as its users call it and optimised in a process of its own, one
after another, with a limit (`--limit-s`). The returned module is then compared with a copy of the original: on the
example inputs and on fresh ones, by class all the way down (fields that are None and caches included), by value, and in
what a call does to a cache that it was given. A module that answers otherwise is "wrong", whatever its speed.

Where torchvision's compiled library does not load beside this torch, its operators are declared so that it can be
imported (`import_torchvision.py`); none of these models calls one.

`--eager-only` calls each model and prints seconds and the class of its output. `--library transformers` and `--only
BertModel` choose; `--retry error timeout` runs rows with such a status again. The same command goes on where it was
stopped. A page is written of all rows that there are.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import shutil
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from item_processes import Items, add_item_options, follow_parent, write_row
from kernelbench_cpu_report import described
from model_zoo_models import Entry, entries
from model_zoo_page import render_page
from optimized_module import describe_error, measure_module

from warpsmith.config import Config
from warpsmith.records import Budget

LIBRARIES = ("transformers", "torchvision", "timm")


def main() -> int:
    options = parse_arguments()
    chosen = choose_entries(options)
    if options.item:
        follow_parent(options)
        write_row(options, measure_entry(find_entry(options.item), options))
        return 0
    if options.eager_only:
        return call_eagerly(chosen)
    options.cache.mkdir(parents=True, exist_ok=True)
    rest = [f"--{name}={getattr(options, name)}" for name in ("time", "evaluations", "seed", "cache")]
    rest += ["--baselines", *options.baselines]
    items = Items(os.path.abspath(__file__), rest, options.limit_s, options.jobs, apart=True)
    rows = items.run_rest([entry_key(e) for e in chosen], options.out, options.retry)
    if options.page:
        options.page.parent.mkdir(parents=True, exist_ok=True)
        options.page.write_text(render_page(rows, describe_command(options), len(chosen) - len(rows)))
    return int(any(row["status"] in ("error", "wrong") for row in rows))


def measure_entry(entry: Entry, options: argparse.Namespace) -> dict[str, Any]:
    """The row of one model; what goes wrong before `optimize` is called is an error, too."""
    row: dict[str, Any] = {
        "library": entry.library, "name": entry.name, "family": entry.family, "machine": described(),
        "versions": library_versions(), "date": datetime.now(UTC).date().isoformat(),
    }  # fmt: skip
    folder = Path(tempfile.gettempdir())  # the parent gave this process a folder of its own
    config = Config.load(
        {"archive": folder / "archive.db", "cache": folder / "cache", "baselines": options.baselines}
    )
    copy_peaks(options.cache, config.cache)
    budget = Budget(seconds=read_seconds(options.time), evaluations=options.evaluations or None)
    try:
        module = entry.make_module()
        row |= measure_module(
            module, lambda seed: entry.inputs(module, seed), target="cpu", budget=budget, config=config,
            seed=options.seed,
        )  # fmt: skip
    except Exception as error:  # noqa: BLE001 - every outcome is a row
        row |= describe_error(error)
    copy_peaks(config.cache, options.cache)
    return row


def copy_peaks(source: Path, folder: Path) -> None:
    """What was measured of this machine is measured once."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in source.glob("peaks-*.json"):
        shutil.copy(file, folder)


def call_eagerly(chosen: list[Entry]) -> int:
    """Print what each model takes and returns; the number of those that do not run."""
    import torch

    failures = 0
    for entry in chosen:
        try:
            module = entry.make_module()
            args, kwargs = entry.inputs(module, 0)
            with torch.no_grad():
                start = time.monotonic()
                output = module(*args, **kwargs)
            print(
                f"{entry_key(entry)}: {time.monotonic() - start:.3f} s, {type(output).__name__}", flush=True
            )
        except Exception as error:  # noqa: BLE001
            failures += 1
            print(f"{entry_key(entry)}: {describe_error(error)['reason']}", flush=True)
    return failures


def choose_entries(options: argparse.Namespace) -> list[Entry]:
    return [
        entry for entry in entries()
        if entry.library in options.library and (not options.only or entry.name in options.only)
    ]  # fmt: skip


def find_entry(key: str) -> Entry:
    return next(entry for entry in entries() if entry_key(entry) == key)


def entry_key(entry: Entry) -> str:
    return f"{entry.library}/{entry.name}"


def library_versions() -> dict[str, str]:
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "missing"
    return versions


def describe_command(options: argparse.Namespace) -> str:
    """The command as anyone would give it, without this machine's paths."""
    parts = [
        f"--time {options.time}",
        f"--evaluations {options.evaluations}",
        f"--limit-s {options.limit_s:g}",
    ]
    parts.append(f"--baselines {' '.join(options.baselines)}")
    chosen = [f"--library {' '.join(options.library)}"] if tuple(options.library) != LIBRARIES else []
    named = [f"--only {' '.join(options.only)}"] if options.only else []
    return " ".join(["python benchmarks/model_zoo.py", *parts, *chosen, *named])


def read_seconds(text: str) -> float:
    """20, 20s or 2m."""
    return float(text[:-1]) * 60 if text.endswith("m") else float(text.removesuffix("s"))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--library", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--only", nargs="+", help="models by name, as the page shows them")
    parser.add_argument("--eager-only", action="store_true", help="call each model, and do nothing else")
    parser.add_argument("--time", default="20s", help="for the search of one model: 20s, 2m")
    parser.add_argument("--evaluations", type=int, default=6, help="candidates to judge a model; 0: no limit")
    parser.add_argument(
        "--limit-s", type=float, default=600.0, help="seconds after which a model is given up"
    )
    parser.add_argument(
        "--baselines", nargs="+", default=["eager", "compile"],
        help="eager compile compile-max-autotune; what is compiled takes up to a minute a model, twice",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=1, help="models at a time, each on processors of its own")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--retry", nargs="+", default=[], help="statuses of earlier rows to run again")
    parser.add_argument("--out", type=Path, default=Path("results/cpu/model_zoo.jsonl"))
    parser.add_argument("--page", type=Path, help="write the rows as a page of markdown")
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "warpsmith-model-zoo",
        help="folder for what is measured of this machine once",
    )  # fmt: skip
    add_item_options(parser)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
