"""Who may look: whoever has the token of the URL that was printed, by a cookie or as a bearer.

The URL sets the cookie once and leads on to itself without the token, so that it stays out of the history and of addresses that are passed
on. Cookies do not tell ports apart, so each server's has a name of its own.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ..web import match_token, read_bearer

CLOSED = "open the URL that `warpsmith ui` printed: it has the token\n"


class TokenGuard:
    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self.app, self.token, self.cookie = app, token, f"warpsmith-ui-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        request = Request(scope)
        presented = request.query_params.get("token")
        if presented is not None and request.method == "GET" and match_token(presented, self.token):
            return await self._let_in(request)(scope, receive, send)
        bearer = read_bearer(request.headers.get("authorization"))
        if match_token(request.cookies.get(self.cookie), self.token) or match_token(bearer, self.token):
            return await self.app(scope, receive, send)
        await PlainTextResponse(CLOSED, 401)(scope, receive, send)

    def _let_in(self, request: Request) -> Response:
        answer = RedirectResponse(request.url.path, 303)
        answer.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
        return answer
