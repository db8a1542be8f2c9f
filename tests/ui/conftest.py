"""A live page on an archive of its own, runs beside it, and a browser where there is one."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sse_starlette", reason="the extra `ui` is not installed")

import uvicorn
from chromium import launch_browser
from live_server import PATIENCE_SECONDS, TOKEN, Live, wait_until

from warpsmith.archive.store import Archive
from warpsmith.ui.app import make_app

PACED_RUN = Path(__file__).with_name("paced_run.py")


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    with closing(Archive(tmp_path / "a.db")) as archive, socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        config = uvicorn.Config(
            make_app(archive, TOKEN, port), log_level="error", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        wait_until(lambda: server.started)
        yield Live(port, archive)
        server.should_exit = True
        thread.join(10)


@pytest.fixture
def start_run(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a run on the live archive, as a process of its own: a paced one, or `warpsmith optimize` with these arguments."""
    processes = []

    def start(seconds: float = 0.1, evaluations: int = 14, real: Sequence[str] = ()) -> subprocess.Popen[str]:
        archive = str(tmp_path / "a.db")
        command = [sys.executable, str(PACED_RUN), archive, str(seconds), str(evaluations)]
        if real:
            command = [
                sys.executable,
                "-m",
                "warpsmith",
                "optimize",
                *real,
                "--archive",
                archive,
                "--json",
                "-",
            ]
        processes.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        )
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launch_browser() as opened:
        yield opened


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a page in a browser's profile of its own; what its console says, and errors of its script, fail the test."""
    contexts, complaints = [], []

    def note(text: str) -> None:
        if not text.startswith("Failed to load resource"):  # a status that a test asks for
            complaints.append(text)

    def open_it(url: str, **settings: Any) -> Any:
        contexts.append(browser.new_context(**settings))
        page = contexts[-1].new_page()
        page.set_default_timeout(PATIENCE_SECONDS * 1000)
        page.on("console", lambda message: note(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url)
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert complaints == []
