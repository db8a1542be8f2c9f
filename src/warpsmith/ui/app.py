"""The application: pages, their streams of news, and forms that become requests; behind the guards and the token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from ..archive.store import Archive
from ..errors import WarpsmithError
from ..pages.rendering import read_style
from ..web import allow_loopback, guard_app
from .access import TokenGuard
from .asking import ask
from .feed import Feed
from .pages import HERE, Pages
from .site_folder import SiteFolder
from .views import Views

MAX_BODY_BYTES = 1_000_000  # a kernel has 256 KiB at the most, which a form may triple
STATIC = {"pages.css": "text/css", "ui.css": "text/css", "ui.js": "text/javascript"}
PING_SECONDS = 15


class Handlers:
    """The handlers of all routes."""

    def __init__(self, archive: Archive) -> None:
        self.site = SiteFolder(archive.database.where)
        self.views = Views(archive)
        self.pages = Pages(self.views)
        self.feed = Feed(self.views, self.pages.render_parts)

    async def show_overview(self, request: Request) -> Response:
        return HTMLResponse(await anyio.to_thread.run_sync(self.pages.render_overview))

    async def show_activity(self, request: Request) -> Response:
        html = await anyio.to_thread.run_sync(self.pages.render_activity, request.path_params["activity"])
        return self._answer(html, "activity")

    async def show_candidate(self, request: Request) -> Response:
        html = await anyio.to_thread.run_sync(self.pages.render_candidate, request.path_params["candidate"])
        return self._answer(html, "candidate")

    async def take_request(self, request: Request) -> Response:
        """Put a form's request into the inbox; show the page again with the form where that cannot be."""
        activity_id, kind = request.path_params["activity"], request.path_params["kind"]
        form = await request.form()
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        activity = await anyio.to_thread.run_sync(self.views.activities.get, activity_id)
        if activity is None:
            return self._answer(None, "activity")
        try:
            await anyio.to_thread.run_sync(ask, self.views, activity, kind, fields)
        except WarpsmithError as error:
            trouble = " ".join(str(error).split())
            html = await anyio.to_thread.run_sync(self.pages.render_activity, activity_id, trouble, fields)
            return HTMLResponse(html, 422)
        return RedirectResponse(f"/live/{activity.activity_id}#requests", 303)

    async def stream(self, request: Request) -> Response:
        page = request.query_params.get("of", "")
        return EventSourceResponse(self.feed.follow(page), ping=PING_SECONDS)

    async def show_site(self, request: Request) -> Response:
        return HTMLResponse(self.pages.render_site(self.site))

    async def build_site(self, request: Request) -> Response:
        await anyio.to_thread.run_sync(self.site.build)
        return RedirectResponse("/site", 303)

    async def show_static(self, request: Request) -> Response:
        name = request.path_params["name"]
        kind = STATIC.get(name, "")
        if not kind:
            raise HTTPException(404)
        text = (
            read_style(name) if name == "pages.css" else (HERE / "static" / name).read_text(encoding="utf-8")
        )
        return Response(text, media_type=kind, headers={"Cache-Control": "no-cache"})

    def _answer(self, html: str | None, noun: str) -> Response:
        if html is not None:
            return HTMLResponse(html)
        text = f"The archive holds no such {noun}."
        return HTMLResponse(self.pages.render_message("Not here", text), 404)

    async def show_error(self, request: Request, error: Exception) -> Response:
        """One line for what went wrong with the archive."""
        text = " ".join(str(error).split())
        return HTMLResponse(self.pages.render_message("The archive cannot be read", text), 503)

    async def show_missing(self, request: Request, error: Exception) -> Response:
        return HTMLResponse(self.pages.render_message("Not here", "There is no such page."), 404)


def make_app(archive: Archive, token: str, port: int) -> ASGIApp:
    """Make the application for a server at this port of the loopback interface."""
    handlers = Handlers(archive)
    routes = [
        Route("/", handlers.show_overview),
        Route("/live/{activity}", handlers.show_activity),
        Route("/live/{activity}/{kind}", handlers.take_request, methods=["POST"]),
        Route("/candidates/{candidate}", handlers.show_candidate),
        Route("/events", handlers.stream),
        Route("/static/{name}", handlers.show_static),
        Route("/site", handlers.show_site),
        Route("/site/build", handlers.build_site, methods=["POST"]),
        Mount("/site", StaticFiles(directory=handlers.site.folder, check_dir=False)),
    ]

    @asynccontextmanager
    async def watch(app: Starlette) -> AsyncIterator[None]:
        watching = asyncio.create_task(handlers.feed.watch())
        try:
            with handlers.site:
                yield
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    endings = {WarpsmithError: handlers.show_error, 404: handlers.show_missing}
    app = Starlette(routes=routes, lifespan=watch, exception_handlers=endings)  # type: ignore[arg-type]
    return guard_app(TokenGuard(app, token, port), allow_loopback(port), max_body_bytes=MAX_BODY_BYTES)
