"""The Model Context Protocol as a face of the authors' service: coding agents list tasks, read them, hand in
units, get verdicts.

In: an author, of the service in this process or of one elsewhere, and a transport. Out: a server that runs until its client leaves or it is
interrupted. The official SDK, the optional extra `mcp`, speaks the protocol.
"""

from __future__ import annotations

from importlib.util import find_spec

from ..authoring.author import Author
from ..errors import UsageError

HOST = "127.0.0.1"  # whoever may speak to the server may run the compiler and the judge


def expect_startable(port: int | None) -> None:
    """Raises UsageError where the SDK is not installed or the port is no port."""
    if find_spec("mcp") is None:
        raise UsageError("the MCP server needs an extra: pip install 'warpsmith[mcp]'")
    if port is not None and not 0 < port < 1 << 16:
        raise UsageError(f"--http {port}: give a port from 1 to 65535")


def serve(author: Author, port: int | None = None) -> None:
    """Over standard input and output, or as streamable HTTP on this machine alone where `port` is given.

    Raises UsageError where the SDK is not installed or the port is no port.
    """
    expect_startable(port)
    from .server import build_server, run_http

    server = build_server(author)
    if port is None:
        server.run("stdio")
    else:
        run_http(server, HOST, port)
