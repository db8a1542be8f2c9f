"""A worker for the tests of `processes/worker.py`: it answers, fails, prints, crashes, hangs, forks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

from warpsmith.errors import TaskError
from warpsmith.processes.worker import serve


def echo(**fields: Any) -> dict[str, Any]:
    print('{"forged": "answer"}')
    return fields


def answer_first(**fields: Any) -> dict[str, Any]:
    """Answer, and fail afterwards where a message says so."""
    return {**fields, "after": lambda: fail(fields["message"]) if fields["message"] else None}


def fail(message: str) -> None:
    raise TaskError(message)


def crash() -> None:
    os.abort()


def leave() -> None:
    sys.exit(3)


def end() -> None:
    os._exit(7)


def hang() -> None:
    time.sleep(600)


def fork() -> dict[str, Any]:
    """A child in a session of its own."""
    return {"pid": subprocess.Popen(["sleep", "600"], start_new_session=True).pid}


if __name__ == "__main__":
    serve({f.__name__: f for f in (echo, answer_first, fail, crash, leave, end, hang, fork)})
