"""A scripted service behind a real server on the loopback address, and its clients."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scripted_author_session import service, spec, task
from served_author import Served

pytest.importorskip("starlette")
pytest.importorskip("httpx2")

import uvicorn

from warpsmith.authoring.service import AuthoringService
from warpsmith.serving.app import Limits, build_app
from warpsmith.serving.audit import AuditLog
from warpsmith.serving.client import RemoteAuthor
from warpsmith.serving.running import Address, listen
from warpsmith.web.tokens import make_token

__all__ = ["service", "spec", "task"]


@pytest.fixture
def serve(service: AuthoringService, tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """serve(limits) starts a server of the scripted service for the clients ada and eve."""
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(limits: Limits | None = None) -> Served:
        tokens, audit = {name: make_token() for name in ("ada", "eve")}, tmp_path / "audit.jsonl"
        listening = listen(Address(port=0))
        port = listening.getsockname()[1]
        app = build_app(service, tokens, Address(port=0).allow(port), AuditLog(audit), limits)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        running.append((server, thread))
        return Served(f"http://127.0.0.1:{port}", port, tokens, audit)

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(10)


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    return serve()


@pytest.fixture
def author(served: Served) -> Iterator[RemoteAuthor]:
    with served.author() as opened:
        yield opened
