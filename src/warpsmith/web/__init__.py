"""Guards for whatever of this package speaks HTTP: foreign hosts and origins, large bodies, headers, tokens.

In: an ASGI application and what it allows. Out: the same application behind its guards. No page and no route is here. Needs the extra
of a face that serves (`ui`, `mcp`).
"""

from .guards import BodyLimit, HostGuard, OriginGuard, SecurityHeaders, guard_app
from .origins import Allowed, allow_loopback
from .tokens import make_token, match_token, read_bearer

__all__ = [
    "Allowed", "BodyLimit", "HostGuard", "OriginGuard", "SecurityHeaders", "allow_loopback", "guard_app", "make_token", "match_token",
    "read_bearer",
]  # fmt: skip
