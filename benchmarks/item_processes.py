"""Items of a benchmark, each in a process and a folder of its own, with a time limit; rows as JSON lines.

In: a script that, called with `--row FILE --item NAME`, writes one row. Out: rows in the order in which they are done,
appended to a file, from which the same command goes on. A process that ends without a row is a row, too.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from json_lines import known_lines
from lanes import waited

from warpsmith import machine
from warpsmith.errors import UsageError
from warpsmith.processes.worker import die_with_parent, kill_tree

Row = dict[str, Any]
LOG_LINES = 25  # of a process that ended without a row


@dataclass(frozen=True)
class Items:
    """How items are run: the script with its options, the limit of each, how many side by side."""

    script: str
    options: Sequence[str]
    limit_s: float
    jobs: int = 1
    apart: bool = False  # each job on processors of its own, an equal share
    stop: threading.Event = field(default_factory=threading.Event)

    def run_rest(self, names: Sequence[str], out: Path, retry: Sequence[str] = ()) -> list[Row]:
        """Run what the file does not hold yet, or holds with a status to `retry`; all rows, in the order of `names`."""
        rows = {row["item"]: row for row in known_lines(out)}
        todo = [name for name in names if name not in rows or rows[name]["status"] in retry]
        out.parent.mkdir(parents=True, exist_ok=True)
        cut_short = out.exists() and not out.read_text().endswith("\n")
        with out.open("a") as lines:
            lines.write("\n" if cut_short else "")
            for row in self._run_all(todo):
                lines.write(json.dumps(row) + "\n")
                lines.flush()
                os.fsync(lines.fileno())
                rows[row["item"]] = row
                print(f"{row['item']} ({row['wall_s']} s): {row['status']} {row['reason'][:300]}", flush=True)
        return [rows[name] for name in names if name in rows]

    def _run_all(self, names: Sequence[str]) -> Iterator[Row]:
        shares: queue.SimpleQueue[set[int]] = queue.SimpleQueue()
        for share in self._shares():
            shares.put(share)
        with ThreadPoolExecutor(self.jobs) as pool:
            waiting = [pool.submit(self._run_on_share, name, shares) for name in names]
            try:
                for done in as_completed(waiting):
                    row = done.result()
                    if row is not None:
                        yield row
            finally:
                self.stop.set()

    def _shares(self) -> list[set[int]]:
        """Processors of each job: all of them, or neighbours of its own."""
        processors = sorted(machine.affinity())
        count = len(processors) // self.jobs
        if not self.apart:
            return [set(processors)] * self.jobs
        if not count:
            raise UsageError(f"--jobs {self.jobs}: there are {len(processors)} processors")
        return [set(processors[i * count : (i + 1) * count]) for i in range(self.jobs)]

    def _run_on_share(self, name: str, shares: queue.SimpleQueue[set[int]]) -> Row | None:
        share = shares.get()
        try:
            return self._run_item(name, share)
        finally:
            shares.put(share)

    def _run_item(self, name: str, processors: set[int]) -> Row | None:
        """The row of one item; None when the others were stopped."""
        if self.stop.is_set():
            return None
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="warpsmith-item-", ignore_cleanup_errors=True) as folder:
            row_file, log = Path(folder) / "row.json", Path(folder) / "log.txt"
            command = [sys.executable, self.script, *self.options, f"--item={name}", f"--row={row_file}"]
            with log.open("wb") as output:
                process = subprocess.Popen(
                    [*command, f"--parent={os.getpid()}"], start_new_session=True, stdin=subprocess.DEVNULL,
                    stdout=output, stderr=output, env={**os.environ, "TMPDIR": folder, "PYTHONUNBUFFERED": "1"},
                    preexec_fn=partial(os.sched_setaffinity, 0, processors),
                )  # fmt: skip
            try:
                ended = waited(process, start + self.limit_s, self.stop)
            finally:
                kill_tree(process)
            if self.stop.is_set() and not ended:
                return None
            row = json.loads(row_file.read_text()) if row_file.exists() else {}
            lines = log.read_text(errors="replace").splitlines()
        how = f"ended with code {process.returncode}" if ended else f"not done in {self.limit_s:g} s"
        row = row or {"status": "error" if ended else "timeout", "reason": how, "log": lines[-LOG_LINES:]}
        return {"item": name, **row, "wall_s": round(time.monotonic() - start, 1)}


def add_item_options(parser: argparse.ArgumentParser) -> None:
    """What the parent passes to the process of one item."""
    for name, kind in (("--item", str), ("--row", Path), ("--parent", int)):
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)


def write_row(options: argparse.Namespace, row: Row) -> None:
    """The child's answer, whole or not at all."""
    aside = options.row.with_suffix(".new")
    aside.write_text(json.dumps(row))
    aside.replace(options.row)


def follow_parent(options: argparse.Namespace) -> None:
    die_with_parent(options.parent)
