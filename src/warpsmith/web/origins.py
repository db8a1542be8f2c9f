"""The hosts and origins that a server answers to.

A page of a foreign site reaches a server on this machine in two ways: by its address, then the browser sends the page's `Origin`, or by a
name of its own that it lets point here (DNS rebinding), then `Host` is that name. So both are compared with what the server calls itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Allowed:
    """`hosts`: values of the header Host. `origins`: values of the header Origin. Both in lower case."""

    hosts: frozenset[str]
    origins: frozenset[str]


def allow_hosts(names: Iterable[str], port: int, scheme: str = "http") -> Allowed:
    """Allow these names at this port; where the port is the scheme's own, browsers leave it out."""
    hosts = {f"{name.lower()}:{port}" for name in names}
    if DEFAULT_PORTS.get(scheme) == port:
        hosts |= {name.lower() for name in names}
    return Allowed(frozenset(hosts), frozenset(f"{scheme}://{host}" for host in hosts))


def allow_loopback(port: int) -> Allowed:
    """Allow what a browser on this machine calls a server on the loopback interface."""
    return allow_hosts(LOOPBACK_NAMES, port)
