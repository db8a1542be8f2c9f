"""What an observer returns, and what it looks at.

An observer is a module with `observe(…) -> Observation`. It never raises for what this machine lacks: it says
"not available" with the reason, so that a profile is always whole.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..processes.worker import kill_tree
from ..records import Record

MOST_OUTPUT = 4 << 20  # bytes of a tool's output that are read


class Observation(Record):
    """One observer's findings on one subject."""

    observer: str
    subject: str = ""  # a unit's region id; empty: the whole candidate
    available: bool = True
    reason: str = ""  # why it is not available
    metrics: dict[str, float] = {}  # name with its unit → value
    notes: tuple[str, ...] = ()  # one line each, for people


def not_available(observer: str, reason: str, subject: str = "") -> Observation:
    return Observation(observer=observer, subject=subject, available=False, reason=reason)


class Ended(Record):
    """How a tool ended, with what it printed (both streams as one text)."""

    code: int
    output: str
    seconds: float
    timed_out: bool = False

    @property
    def how(self) -> str:
        if self.timed_out:
            return f"stopped after {self.seconds:.0f} s"
        return f"signal {signal.Signals(-self.code).name}" if self.code < 0 else f"exit code {self.code}"


def run_tool(
    command: Sequence[str], timeout: float, env: Mapping[str, str] | None = None, folder: Path | None = None,
) -> Ended:  # fmt: skip
    """Run a command in a process group of its own, and kill all that it started. Raises OSError for no such program."""
    start, timed_out = time.monotonic(), False
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=folder,
            start_new_session=True, env={**os.environ, "LC_ALL": "C", **(env or {})},
        )  # fmt: skip
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            kill_tree(process)
        output.seek(0)
        text = output.read(MOST_OUTPUT).decode("utf-8", "replace")
    return Ended(code=process.returncode, output=text, seconds=time.monotonic() - start, timed_out=timed_out)
