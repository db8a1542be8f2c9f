"""ASGI middleware: each guard is a small application around another one. A refusal is one line of plain text."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .origins import Allowed

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_BODY_BYTES = 1_000_000
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
# Under `no-referrer` a browser would say the origin of a form of our own as "null".
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class HostGuard:
    """Answer only to names that are the server's (against DNS rebinding)."""

    def __init__(self, app: ASGIApp, allowed: Allowed) -> None:
        self.app, self.allowed = app, allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if is_request(scope):
            hosts = list_headers(scope, b"host")
            if len(hosts) != 1 or hosts[0].lower() not in self.allowed.hosts:
                return await refuse(scope, receive, send, 421, "this server does not answer to that Host")
        await self.app(scope, receive, send)


class OriginGuard:
    """Answer no page of a foreign origin (against cross-site requests).

    `require`: whether a request that may change something must say its origin. A browser always does; a program with a token of its own
    need not, where this is False.
    """

    def __init__(self, app: ASGIApp, allowed: Allowed, require: bool = True) -> None:
        self.app, self.allowed, self.require = app, allowed, require

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if is_request(scope):
            changes = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
            if not self._is_ours(scope, changes):
                return await refuse(scope, receive, send, 403, "requests from another origin are refused")
        await self.app(scope, receive, send)

    def _is_ours(self, scope: Scope, changes: bool) -> bool:
        origins, sites = list_headers(scope, b"origin"), list_headers(scope, b"sec-fetch-site")
        if origins:
            return len(origins) == 1 and origins[0].lower() in self.allowed.origins
        if not changes:
            return True
        if any(site not in ("same-origin", "none") for site in sites):
            return False
        return not self.require


class BodyLimit:
    """Read no more of a body than this: 413, said by its header or noticed on the way."""

    def __init__(self, app: ASGIApp, max_bytes: int = MAX_BODY_BYTES) -> None:
        self.app, self.max_bytes = app, max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        reading = _LimitedBody(receive, send, self.max_bytes)
        try:
            if any(
                not n.isdigit() or int(n) > self.max_bytes for n in list_headers(scope, b"content-length")
            ):
                raise BodyTooLarge(self.max_bytes)
            await self.app(scope, reading.receive, reading.send)
        except BodyTooLarge as error:
            if reading.answered:
                raise
            await refuse(scope, receive, send, error.status_code, error.detail)


class BodyTooLarge(HTTPException):
    """A body went on beyond its limit. Starlette's applications answer with it themselves."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(413, f"the body is larger than {max_bytes} bytes")


class _LimitedBody:
    """One request: bytes that were read, and whether the answer has begun."""

    def __init__(self, receive: Receive, send: Send, max_bytes: int) -> None:
        self._receive, self._send = receive, send
        self._max_bytes = self._bytes_left = max_bytes
        self.answered = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._bytes_left -= len(message.get("body", b""))
        if self._bytes_left < 0:
            raise BodyTooLarge(self._max_bytes)
        return message

    async def send(self, message: Message) -> None:
        self.answered = True
        await self._send(message)


class SecurityHeaders:
    """Say with every answer what a browser may do with it. Nothing is cached that does not ask for it."""

    def __init__(
        self, app: ASGIApp, content_policy: str = CONTENT_POLICY, headers: Mapping[str, str] = HEADERS
    ) -> None:
        self.app = app
        self.headers = {"Content-Security-Policy": content_policy, **headers}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self.headers.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self.app(scope, receive, send_with_headers)


def guard_app(
    app: ASGIApp,
    allowed: Allowed,
    *,
    require_origin: bool = True,
    max_body_bytes: int = MAX_BODY_BYTES,
    content_policy: str = CONTENT_POLICY,
) -> ASGIApp:
    """Put an application behind all guards; refusals have the headers, too."""
    guarded: ASGIApp = BodyLimit(app, max_body_bytes)
    guarded = OriginGuard(guarded, allowed, require_origin)
    guarded = HostGuard(guarded, allowed)
    return SecurityHeaders(guarded, content_policy)


def is_request(scope: Scope) -> bool:
    return scope["type"] in ("http", "websocket")


def list_headers(scope: Scope, name: bytes) -> list[str]:
    """List the values of a header, which a request may repeat."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


async def refuse(scope: Scope, receive: Receive, send: Send, status: int, why: str) -> None:
    """End a request with one line of text; a WebSocket before it is accepted."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": why})
        return
    await PlainTextResponse(f"{why}\n", status)(scope, receive, send)
