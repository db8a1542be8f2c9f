"""The process's edge: a socket, a token, and uvicorn around the application."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing

import uvicorn

from ..archive.store import Archive
from ..config import Config
from ..errors import UsageError
from ..web import make_token
from .app import make_app

CLOSING_SECONDS = 1  # for open streams, when the server is interrupted


def run_server(config: Config, host: str, port: int, tell: Callable[[str], None]) -> None:
    """Raises UsageError where the port is taken, ArchiveError where the archive cannot be opened."""
    with listen(host, port) as listening, closing(Archive(config.archive)) as archive:
        number, token = listening.getsockname()[1], make_token()
        app = make_app(archive, token, number)
        settings = uvicorn.Config(
            app, log_level="warning", timeout_graceful_shutdown=CLOSING_SECONDS, server_header=False
        )
        tell(f"http://{host}:{number}/?token={token}")
        uvicorn.Server(settings).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # whoever has the URL may connect from now on
    except OSError as error:
        listening.close()
        raise UsageError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another --port"
        ) from error
    return listening
