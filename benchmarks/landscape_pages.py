"""What benchmarks on landscapes take and leave: the recorded files in, `<out>.json` and `<out>.md` out."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from warpsmith.errors import UsageError


def add_landscapes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("landscapes", type=Path, nargs="+", help="files, or folders of them")
    parser.add_argument("--out", type=Path, help="without a suffix")


def landscape_files(options: argparse.Namespace, names: Sequence[str] = ()) -> dict[str, Path]:
    """By task, in order; all where no names are given. Raises UsageError when there is none."""
    files = (f for path in options.landscapes for f in (path.glob("*.jsonl.gz") if path.is_dir() else [path]))
    found = {
        name: file for file in sorted(files) if (name := file.name.partition(".")[0]) in names or not names
    }
    if not found:
        raise UsageError("there is no landscape: record some with benchmarks/record_landscapes.py")
    return found


def leave(options: argparse.Namespace, data: Mapping[str, Any], text: str, indent: int | None = 1) -> None:
    """Prints the page, and keeps it and its figures where the options say so."""
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        separators = (",", ":") if indent is None else None
        kept = json.dumps(data, indent=indent, separators=separators)
        options.out.with_suffix(".json").write_text(kept + "\n")
        options.out.with_suffix(".md").write_text(text)
    print(text)
