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
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from item_processes import Items, add_run_options, follow_parent, pass_on, seconds_left, write_row
from lanes import divide
from model_zoo_models import Entry, entries
from model_zoo_page import render_page
from optimized_module import SEARCH_OPTIONS, add_search_options, describe_error, measure_item
from pages import describe_machine, write_page

LIBRARIES = ("transformers", "torchvision", "timm")


def main() -> int:
    options = parse_arguments()
    if options.row:
        follow_parent(options)
        write_row(options, measure_entry(find_entry(options.item), options))
        return 0
    chosen = choose_entries(options)
    if options.eager_only:
        return call_eagerly(chosen)
    lanes = divide(options.jobs, options.cores)
    passed = pass_on(options, *SEARCH_OPTIONS)
    items = Items(os.path.abspath(__file__), passed, options.limit_s, lanes, seconds_left(options))
    rows = items.run_rest([entry_key(e) for e in chosen], options.out, options.retry)
    if options.page:
        write_page(options.page, render_page(rows, describe_command(options), len(chosen) - len(rows)))
    return int(any(row["status"] in ("error", "wrong") for row in rows))


def measure_entry(entry: Entry, options: argparse.Namespace) -> dict[str, Any]:
    row: dict[str, Any] = {
        "library": entry.library, "name": entry.name, "family": entry.family, "machine": describe_machine(),
        "versions": library_versions(), "date": datetime.now(UTC).date().isoformat(),
    }  # fmt: skip
    return row | measure_item(entry.make_module, entry.inputs, options, "cpu")


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
        f"--time {options.time:g}s",
        f"--evaluations {options.evaluations}",
        f"--limit-s {options.limit_s:g}",
    ]
    parts.append(f"--baselines {' '.join(options.baselines)}")
    chosen = [f"--library {' '.join(options.library)}"] if tuple(options.library) != LIBRARIES else []
    named = [f"--only {' '.join(options.only)}"] if options.only else []
    return " ".join(["python benchmarks/model_zoo.py", *parts, *chosen, *named])


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--library", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--only", nargs="+", help="models by name, as the page shows them")
    parser.add_argument("--eager-only", action="store_true", help="call each model, and do nothing else")
    parser.add_argument("--page", type=Path, help="write the rows as a page of markdown")
    add_search_options(parser, time_s=20.0, evaluations=6, baselines=["eager", "compile"])
    add_run_options(parser, Path("results/cpu/model_zoo.jsonl"), limit_s=600.0)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
