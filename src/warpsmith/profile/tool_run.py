"""`run_tool` runs an external tool with a time limit and returns its exit code and output as a `ToolRun`."""

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

MAX_OUTPUT_BYTES = 4 << 20  # of a tool's output, read


class ToolRun(Record):
    """One run of a tool to its end: exit code, both output streams as one text, seconds."""

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
) -> ToolRun:  # fmt: skip
    """Run a command in its own process group, then kill every process that it started. Raises OSError when there is no such program."""
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
        text = output.read(MAX_OUTPUT_BYTES).decode("utf-8", "replace")
    return ToolRun(
        code=process.returncode, output=text, seconds=time.monotonic() - start, timed_out=timed_out
    )
