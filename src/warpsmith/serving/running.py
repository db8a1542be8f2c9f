"""A server from its settings to its end: the socket, the names it answers to, TLS, what it says when it starts.

In: a service, clients, an address. Out: it serves until it is interrupted; jobs that had not ended are for the next one.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from ..authoring.service import AuthoringService
from ..errors import UsageError
from ..web.origins import LOOPBACK_NAMES, Allowed, allow_hosts
from .app import Limits, build_app
from .audit import AuditLog

STOP_SECONDS = 2  # that requests under way may take when the server stops
MAX_CONNECTIONS = 200


@dataclass(frozen=True)
class Address:
    """Where it listens. `names`: other names that it answers to. Raises UsageError for what is not safe."""

    host: str = "127.0.0.1"
    port: int = 8765
    names: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    plain: bool = False  # the operator takes it upon himself that tokens travel unencrypted

    def __post_init__(self) -> None:
        if not 0 <= self.port < 1 << 16:
            raise UsageError(f"--port {self.port}: give a port from 1 to 65535, or 0 for a free one")
        if (self.certificate is None) != (self.key is None):
            raise UsageError("--tls-cert and --tls-key belong together")
        if not is_loopback(self.host) and self.certificate is None and not self.plain:
            raise UsageError(
                f"--host {self.host} is reached by other machines: give --tls-cert and --tls-key, or --plain-http where the network is "
                "yours alone; `ssh -L` to the loopback address needs neither"
            )

    @property
    def scheme(self) -> str:
        return "https" if self.certificate is not None else "http"

    def allow(self, port: int) -> Allowed:
        names = [*LOOPBACK_NAMES, self.host, *self.names]
        return allow_hosts(names, port, self.scheme)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(address: Address) -> socket.socket:
    """Raises UsageError where the address is taken or none of this machine's."""
    try:
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address.host, address.port))
        listening.listen(MAX_CONNECTIONS)  # now: who is told of it may connect at once
    except OSError as error:
        raise UsageError(
            f"cannot listen on {address.host}:{address.port}: {error.strerror or error}; choose another --port"
        ) from error
    return listening


def serve(
    service: AuthoringService, clients: Mapping[str, str], address: Address, audit: Path, listening: socket.socket, limits: Limits | None = None
) -> None:  # fmt: skip
    """Serve at the socket until interrupted."""
    log = AuditLog(audit)
    app = build_app(service, clients, address.allow(listening.getsockname()[1]), log, limits)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=STOP_SECONDS,
        limit_concurrency=MAX_CONNECTIONS, ssl_certfile=address.certificate, ssl_keyfile=address.key,
        timeout_keep_alive=5,
    )  # fmt: skip
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        listening.close()
        log.close()


__all__: Sequence[str] = ["Address", "is_loopback", "listen", "serve"]
