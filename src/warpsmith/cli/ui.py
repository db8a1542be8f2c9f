"""`ui`: a live page of what works on an archive."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from ..errors import UsageError
from . import options as o


def register(app: typer.Typer) -> None:
    app.command()(ui)


def ui(
    archive: o.ArchiveOption = None,
    port: Annotated[int, typer.Option("--port", help="A port of 127.0.0.1; 0: a free one.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Open no browser.")] = False,
) -> None:
    """Show what runs, suites and authors do while they work, and let you stop, pin, propose and submit."""
    from ..ui import serve

    if not 0 <= port < 1 << 16:
        raise UsageError(f"--port {port}: give a port from 1 to 65535, or 0 for a free one")

    def tell(url: str) -> None:
        print(url, flush=True)
        if not no_open:
            webbrowser.open(url)

    serve(o.config(archive), port, tell)
