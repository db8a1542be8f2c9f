"""Items of a benchmark, each in a process and a folder of its own, with a time limit; rows as JSON lines.

In: a script that, called with `--item NAME --row FILE`, writes one row (`write_row`). Out: rows in the order in which
they are done, appended to a file, from which the same command goes on. A process that ends without a status is a row, too:
it holds what was written before, and the process's last words. The options that such scripts share are here as well.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from json_lines import append_line, known_rows
from lanes import divide, run_limited, run_on_lanes

from warpsmith.processes.worker import die_with_parent

Row = dict[str, Any]
LOG_LINES = 25  # of a process that ended without a status


@dataclass(frozen=True)
class Columns:
    """Names of the columns of a row that are written here."""

    item: str = "item"
    status: str = "status"
    seconds: str = "wall_s"
    timeout: str = "timeout"  # the status of what was not done within its limit


def own_folder(folder: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True)
class Items:
    """How items are run: the script with its options, the limit of each, the lanes that they run in."""

    script: str
    options: Sequence[str]
    limit_s: float
    lanes: Sequence[set[int]] = field(default_factory=lambda: divide(1, None))
    until: float = math.inf  # monotonic seconds at which all is stopped; what runs then has no row
    columns: Columns = Columns()
    environment: Callable[[Path], dict[str, str]] = own_folder
    complete: Callable[[Row], Row] = lambda row: row  # before a row is written
    stop: threading.Event = field(default_factory=threading.Event)

    def run_rest(
        self,
        names: Sequence[str],
        out: Path,
        retry: Sequence[str] = (),
        known: Mapping[str, Row] | None = None,
    ) -> list[Row]:
        """Run what is neither `known` nor in the file, or has a status to `retry`; all rows, in the order of `names`."""
        item, status, seconds = self.columns.item, self.columns.status, self.columns.seconds
        rows = {**(known or {}), **known_rows(out, item)}
        todo = [name for name in names if name not in rows or rows[name].get(status) in retry]
        out.parent.mkdir(parents=True, exist_ok=True)
        out.touch()
        for row in run_on_lanes(self._run_item, todo, self.lanes, self.stop):
            append_line(out, row)
            rows[row[item]] = row
            print(f"{row[item]} ({row[seconds]} s): {row[status]} {row['reason'][:300]}", flush=True)
        return [rows[name] for name in names if name in rows]

    def _run_item(self, name: str) -> Row | None:
        """The row of one item; None where all was stopped before it was done."""
        start = time.monotonic()
        if self.stop.is_set() or start >= self.until:
            return None
        with tempfile.TemporaryDirectory(prefix="warpsmith-item-", ignore_cleanup_errors=True) as folder:
            file = Path(folder) / "row.json"
            command = [sys.executable, self.script, *self.options, f"--item={name}", f"--row={file}"]
            ended = run_limited(
                [*command, f"--parent={os.getpid()}"], limit_s=min(self.limit_s, self.until - start),
                log=Path(folder) / "log.txt", stop=self.stop, env=self.environment(Path(folder)),
            )  # fmt: skip
            if ended.code is None and (self.stop.is_set() or self.until - start < self.limit_s):
                return None
            row = json.loads(file.read_text()) if file.exists() else {}
        row = {self.columns.item: name, **self._with_status(row, ended.code, ended.log)}
        return self.complete({**row, self.columns.seconds: round(ended.seconds, 1)})

    def _with_status(self, row: Row, code: int | None, log: list[str]) -> Row:
        """A row that its process did not finish says how that ended, and at which stage where it told one."""
        if self.columns.status in row:
            return row
        status = "error" if code is not None else self.columns.timeout
        reason = f"ended with code {code}" if code is not None else f"not done in {self.limit_s:g} s"
        reason += f": {row['stage']}" if "stage" in row else ""
        return {**row, self.columns.status: status, "reason": reason, "log": log[-LOG_LINES:]}


def add_run_options(
    parser: argparse.ArgumentParser, out: Path, limit_s: float, cores: int | None = None
) -> None:
    """Where rows go, how many items run side by side, how long each and all of them may take."""
    parser.add_argument("--out", type=Path, default=out)
    parser.add_argument("--retry", nargs="+", default=[], help="run rows with such a status again: error")
    parser.add_argument("--jobs", type=int, default=1, help="items side by side")
    parser.add_argument(
        "--cores", type=int, default=cores, help="physical cores of each; else an equal share"
    )
    parser.add_argument(
        "--limit-s", "--timeout", type=float, default=limit_s, help="seconds after which an item is killed"
    )
    parser.add_argument(
        "--seconds", type=float, default=math.inf,
        help="for all items; what it cuts short has no row, and the same command goes on; 0: only write the page",
    )  # fmt: skip
    for name, kind in (("--item", str), ("--row", Path), ("--parent", int)):
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)  # for the process of one item


def seconds_left(options: argparse.Namespace) -> float:
    """The moment, in monotonic seconds, at which `--seconds` are over."""
    return time.monotonic() + float(options.seconds)


def pass_on(options: argparse.Namespace, *names: str) -> list[str]:
    """Options as words of a command line, without those that are not set."""
    words: list[str] = []
    for name in names:
        value, flag = getattr(options, name), f"--{name.replace('_', '-')}"
        if isinstance(value, list):
            words += [flag, *map(str, value)]
        elif value is True:
            words.append(flag)
        elif value is not None and value is not False:
            words.append(f"{flag}={value}")
    return words


def read_seconds(text: str) -> float:
    """20, 20s or 2m."""
    return float(text[:-1]) * 60 if text.endswith("m") else float(text.removesuffix("s"))


def write_row(options: argparse.Namespace, row: Row) -> None:
    """The answer of an item's process, whole or not at all; a later one takes its place."""
    aside = options.row.with_suffix(".new")
    aside.write_text(json.dumps(row))
    aside.replace(options.row)


def follow_parent(options: argparse.Namespace) -> None:
    die_with_parent(options.parent)
