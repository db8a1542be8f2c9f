"""The HTTP application: a token, a limit, an operation, a line in the audit log.

In: a service and who may use it. Out: an ASGI application. `POST /v1/OPERATION` with arguments as JSON; the answer is JSON, a refusal
`{"error": one line, "kind": class of the error}`. The token is looked at before the body; nothing of a request is trusted before it is
validated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from .. import __version__
from ..authoring.author import LocalAuthor
from ..authoring.service import AuthoringService
from ..errors import UsageError, WarpsmithError
from ..web.guards import BodyTooLarge, guard_app
from ..web.origins import Allowed
from ..web.tokens import read_bearer
from .access import RateLimit, find_client
from .audit import LOG, Audited, AuditLog, name_subject
from .operations import PREFIX, Operation, find_operation

HUNG_UP = 499  # as others log a client that did not wait for its answer


@dataclass(frozen=True)
class Limits:
    """What one client, or one address without a token, may ask for."""

    body_bytes: int = 10_000_000
    body_seconds: float = 15.0  # in which a body must have come
    burst: int = 120  # requests at once
    per_second: float = 20.0  # requests after that
    refused_burst: int = 10  # wrong tokens of one address at once
    refused_per_second: float = 0.2
    at_once: int = 16  # requests of one client under way
    waiting: int = 64  # requests under way that wait for a job


class Refusal(Exception):
    """A request that is not served: status, one line, the class of the error."""

    def __init__(
        self, status: int, text: str, kind: str = "UsageError", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(text)
        self.status, self.text, self.kind, self.headers = status, text, kind, dict(headers or {})


def build_app(
    service: AuthoringService, clients: Mapping[str, str], allowed: Allowed, audit: AuditLog, limits: Limits | None = None
) -> ASGIApp:  # fmt: skip
    limits = limits or Limits()
    desk = _Desk(service, clients, limits)
    app = Starlette(routes=[Route(f"{PREFIX}{{operation}}", desk.answer, methods=["POST"])])
    guarded = guard_app(app, allowed, require_origin=False, max_body_bytes=limits.body_bytes)
    return Audited(guarded, audit)


class _Desk:
    """Takes requests: each is admitted, read, done and logged."""

    def __init__(self, service: AuthoringService, clients: Mapping[str, str], limits: Limits) -> None:
        self._service, self._clients, self._limits = service, clients, limits
        self._rate = RateLimit(limits.burst, limits.per_second)
        self._refused = RateLimit(limits.refused_burst, limits.refused_per_second)
        self._busy: Counter[str] = Counter()
        self._waiting: anyio.CapacityLimiter | None = None

    async def answer(self, request: Request) -> Response:
        log: dict[str, Any] = request.scope[LOG]
        try:
            return await self._serve(request, log)
        except Refusal as refusal:
            log["error"] = refusal.text
            return JSONResponse(
                {"error": refusal.text, "kind": refusal.kind}, refusal.status, refusal.headers
            )
        except ClientDisconnect:
            return Response(status_code=HUNG_UP)

    async def _serve(self, request: Request, log: dict[str, Any]) -> Response:
        client = self._admit(request)
        log["client"] = client
        operation = find_operation(request.path_params["operation"])
        if operation is None:
            raise Refusal(404, "there is no such operation")
        self._busy[client] += 1
        try:
            if self._busy[client] > self._limits.at_once:
                raise Refusal(
                    429,
                    f"{self._limits.at_once} requests of yours are under way",
                    headers={"Retry-After": "1"},
                )
            body = await self._read(request)
            log["bytes"] = len(body)
            arguments = _parse(operation, body)
            log |= name_subject(arguments.model_dump(mode="json", exclude={"source"}))
            return await self._do(LocalAuthor(self._service, client), operation, arguments)
        finally:
            self._busy[client] -= 1

    def _admit(self, request: Request) -> str:
        """Return whose token the request has."""
        address = request.client.host if request.client is not None else ""
        if wait_s := self._refused.look(address):
            raise _too_many(wait_s)
        client = find_client(self._clients, read_bearer(request.headers.get("authorization")))
        if client is None:
            self._refused.take(address)
            raise Refusal(401, "a token of this service is needed", headers={"WWW-Authenticate": "Bearer"})
        if wait_s := self._rate.take(client):
            raise _too_many(wait_s)
        return client

    async def _read(self, request: Request) -> bytes:
        try:
            with anyio.fail_after(self._limits.body_seconds):
                return await request.body()
        except BodyTooLarge:
            raise Refusal(
                413,
                f"the body is larger than {self._limits.body_bytes} bytes",
                headers={"Connection": "close"},
            ) from None
        except TimeoutError:
            seconds = self._limits.body_seconds
            raise Refusal(
                408, f"the body did not come within {seconds:g} s", headers={"Connection": "close"}
            ) from None

    async def _do(self, author: LocalAuthor, operation: Operation, arguments: BaseModel) -> Response:
        values = {name: getattr(arguments, name) for name in type(arguments).model_fields}
        limiter = self._wait_limiter() if values.get("wait_s") else None
        call = partial(getattr(author, operation.name), **values)
        try:
            answer = await anyio.to_thread.run_sync(call, limiter=limiter, abandon_on_cancel=True)
        except WarpsmithError as error:
            raise Refusal(400, " ".join(str(error).split()), type(error).__name__) from error
        return Response(
            operation.answer.dump_json(answer), media_type="application/json", headers={"Warpsmith-Version": __version__}
        )  # fmt: skip

    def _wait_limiter(self) -> anyio.CapacityLimiter:
        self._waiting = self._waiting or anyio.CapacityLimiter(self._limits.waiting)
        return self._waiting


def _parse(operation: Operation, body: bytes) -> BaseModel:
    try:
        return operation.arguments.model_validate_json(body or b"{}")
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, problem["loc"])) or "arguments"
        raise Refusal(400, f"{where}: {problem['msg']}", UsageError.__name__) from None


def _too_many(wait_s: float) -> Refusal:
    return Refusal(429, "too many requests", headers={"Retry-After": str(max(1, round(wait_s + 0.5)))})
