"""A page that is alive while runs, suites and authors work: what they do, and what a person may ask of them.

In: the settings. Out: a server on this machine's loopback interface that runs until it is interrupted. It reads the archive and puts
requests into its inbox; it holds no state that another face would need.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from ..config import Config
from ..errors import UsageError

HOST = "127.0.0.1"  # whoever may speak to the server may stop runs and have code judged
PARTS = ("starlette", "uvicorn", "sse_starlette", "python_multipart")


def serve(config: Config, port: int = 0, tell: Callable[[str], None] = print) -> None:
    """Serve until interrupted; `port` 0 takes a free one. `tell` hears of the URL once the server listens.

    Raises UsageError where the extra is not installed or the port is taken, ArchiveError.
    """
    if any(find_spec(name) is None for name in PARTS):
        raise UsageError("the live page needs an extra: pip install 'warpsmith[ui]'")
    from .server import run_server

    run_server(config, HOST, port, tell)
