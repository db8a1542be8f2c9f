"""The command `serve`: the authors' service over HTTP, for authors on other machines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..ahead import start_ahead
from ..errors import UsageError
from ..places import ArchiveUrl
from . import options as o


def register(app: typer.Typer) -> None:
    app.command()(serve)


def serve(
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="0: a free one.")] = 8765,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="Lines NAME TOKEN, one a client; when none, a token is drawn and printed once.",
        ),
    ] = None,
    add_client: Annotated[
        str | None,
        typer.Option(
            "--add-client", metavar="NAME", help="Append a client to --token-file, print its token and end."
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="Another name that it answers to. Repeatable."),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate chain, PEM.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="Its private key, PEM.")
    ] = None,
    plain_http: Annotated[
        bool,
        typer.Option("--plain-http", help="Allow other machines without TLS: tokens can be read on the way."),
    ] = False,
    judges: Annotated[
        int, typer.Option("--judges", min=1, max=16, help="Tasks whose judges are kept open.")
    ] = 2,
    audit: Annotated[
        Path | None,
        typer.Option("--audit", metavar="FILE", help="One line a request; beside the archive when none."),
    ] = None,
    target: o.TargetOption = "cpu",
    archive: o.ArchiveOption = None,
    baselines: o.BaselinesOption = None,
) -> None:
    """Judge for authors on other machines, over HTTP: they pass --server and --token-file to `tell`, `board`, `mcp` and the like."""
    from ..serving import expect_extra

    expect_extra()
    from ..serving.access import ONLY_CLIENT, read_clients
    from ..serving.access import add_client as append_client
    from ..web.tokens import make_token

    if add_client is not None:
        if token_file is None:
            raise UsageError("--add-client needs --token-file FILE, to which it adds a line")
        print(append_client(token_file, add_client))
        return
    start_ahead(baselines)
    from ..authoring.service import AuthoringService
    from ..serving.running import Address, listen
    from ..serving.running import serve as run

    address = Address(host, port, tuple(allow_host or ()), tls_cert, tls_key, plain_http)
    config = o.config(archive, baselines)
    clients = read_clients(token_file) if token_file is not None else {ONLY_CLIENT: make_token()}
    beside = config.cache / "serve" if isinstance(config.archive, ArchiveUrl) else config.archive
    listening = listen(address)
    with AuthoringService(config, target, most_open=judges) as service:
        resumed = service.resume()
        bound_port = listening.getsockname()[1]
        print(
            f"serving {target} at {address.scheme}://{host}:{bound_port} for {', '.join(clients)}", flush=True
        )
        if token_file is None:
            print(f"token, shown this once: {clients[ONLY_CLIENT]}", flush=True)
        if resumed:
            print(f"going on with {resumed} jobs that had not ended", file=sys.stderr)
        run(service, clients, address, audit or beside.with_name(f"{beside.name}.audit.jsonl"), listening)
