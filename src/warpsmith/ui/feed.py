"""The news of pages, as server-sent events: the parts of a page that differ from what was sent before.

In: the archive. Out: for each browser a stream of events. The archive is looked at for changes four times a second, which reads nothing;
only after a change, or when a process that worked is gone, are the pages that somebody has open rendered, each once for all who look.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import anyio
from markupsafe import escape
from sse_starlette import ServerSentEvent

from ..archive.changes import ChangeWatch
from ..errors import ArchiveError
from .views import Views

TURN_SECONDS = 0.25  # between two looks for changes
LOOKS_AT_PROCESSES_SECONDS = 1.0
Parts = dict[str, str]  # id of an element → its HTML
Render = Callable[[str], Parts]


class Feed:
    """`render`: the parts of a page, by the page's name; called in a thread."""

    def __init__(self, views: Views, render: Render) -> None:
        self._views, self._render = views, render
        self._watch = ChangeWatch(views.archive.database)
        self._version, self._browsers = 0, 0
        self._lost: frozenset[str] = frozenset()
        self._rendered: dict[str, tuple[int, Parts]] = {}
        self._rendering: dict[str, asyncio.Lock] = {}
        self._news = asyncio.Condition()

    async def follow(self, page: str) -> AsyncIterator[ServerSentEvent]:
        """Yield what is new of a page; first of all everything."""
        sent: Parts = {}
        version = -1
        self._browsers += 1
        try:
            while True:
                async with self._news:
                    while self._version == version:
                        await self._news.wait()
                    version = self._version
                parts = await self._load(page, version)
                fresh = {name: html for name, html in parts.items() if sent.get(name) != html}
                sent = parts
                if fresh:
                    yield ServerSentEvent(data=json.dumps(fresh), event="parts", id=str(version))
        finally:
            self._browsers -= 1

    async def watch(self) -> None:
        """Look for changes until it is cancelled; while no browser is there nothing is looked at."""
        looked_at = 0.0
        try:
            while True:
                await asyncio.sleep(TURN_SECONDS)
                if self._browsers == 0:
                    continue
                clock = asyncio.get_running_loop().time()
                look = clock - looked_at >= LOOKS_AT_PROCESSES_SECONDS
                looked_at = clock if look else looked_at
                if await anyio.to_thread.run_sync(self._notice, look):
                    async with self._news:
                        self._version += 1
                        self._news.notify_all()
        finally:
            self._watch.close()

    def _notice(self, look_at_processes: bool) -> bool:
        """Return whether there may be news. An archive that cannot be asked at the moment is asked at the next turn."""
        try:
            changed = self._watch.notice_change()
            if changed or look_at_processes:
                lost, self._lost = self._lost, self._views.list_lost()
                changed = changed or lost != self._lost
        except ArchiveError:
            return False
        return changed

    async def _load(self, page: str, version: int) -> Parts:
        async with self._rendering.setdefault(page, asyncio.Lock()):
            latest: tuple[int, Parts] | None = self._rendered.get(page)
            if latest is None or latest[0] < version:
                latest = (version, await anyio.to_thread.run_sync(self._render_safely, page))
                self._rendered[page] = latest
            return latest[1]

    def _render_safely(self, page: str) -> Parts:
        try:
            return self._render(page)
        except ArchiveError as error:
            return {"trouble": escape(str(error))}
