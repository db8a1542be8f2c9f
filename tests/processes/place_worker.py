"""A worker for the tests of the fork server: it says where and as whom it runs."""

from __future__ import annotations

import os
import random
import sys
from typing import Any

import psutil

from warpsmith.processes.worker import serve


def place() -> dict[str, Any]:
    return {
        "parent": os.getppid(), "name": psutil.Process().name(), "folder": os.getcwd(), "session": os.getsid(0), "drawn": random.random(),
        "processors": sorted(os.sched_getaffinity(0)), "path": sys.path, "mine": os.environ.get("MINE"), "compilers": os.environ.get("TORCHINDUCTOR_COMPILE_THREADS"),
        "key": os.environ.get("A_KEY"), "threads": os.environ.get("OMP_NUM_THREADS"),
        "ahead": "imported_ahead" in sys.modules,
    }  # fmt: skip


if __name__ == "__main__":
    serve({"place": place})
