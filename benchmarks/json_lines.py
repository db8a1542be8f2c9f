"""Rows of a benchmark as JSON lines, so that the same command goes on where it was stopped."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def known_lines(file: Path) -> list[dict[str, Any]]:
    """Read the objects of a file, without one that a kill cut short. Empty where there is no file."""
    rows = []
    for text in file.read_text().splitlines() if file.exists() else ():
        with contextlib.suppress(ValueError):
            rows.append(json.loads(text))
    return rows


def known_rows(file: Path, key: str = "task") -> dict[str, dict[str, Any]]:
    """Read the last row of each item."""
    return {row[key]: row for row in known_lines(file)}


def append_line(file: Path, row: Mapping[str, Any]) -> None:
    """Write one object through to the disk, and end a line that a kill cut short."""
    with file.open("ab+") as lines:
        if lines.seek(0, os.SEEK_END):
            lines.seek(-1, os.SEEK_END)
            lines.write(b"" if lines.read(1) == b"\n" else b"\n")
        lines.write(json.dumps(row).encode() + b"\n")
        lines.flush()
        os.fsync(lines.fileno())
