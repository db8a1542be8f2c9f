"""A live page on an archive of its own, for tests: where it listens, and waiting for what it is to show."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from warpsmith.archive.store import Archive
from warpsmith.records.live import Activity
from warpsmith.ui.views import Views

PATIENCE_SECONDS = 60.0
TOKEN = "token-of-the-test"


@dataclass(frozen=True)
class Live:
    """A server that runs, and its archive."""

    port: int
    archive: Archive

    @property
    def home(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.home}/?token={TOKEN}"

    @property
    def views(self) -> Views:
        return Views(self.archive)


def wait_until(condition: Callable[[], Any]) -> Any:
    """Wait until something is true; return it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.02)
    return value


def wait_for_activity(live: Live, **expected: Any) -> Activity:
    """Wait for an activity that works and whose state has at least these numbers."""

    def find() -> Activity | None:
        activities = live.views.activities.list_open()
        fits = (a for a in activities if all(getattr(a.state, k) >= v for k, v in expected.items()))
        return next(fits, None)

    return wait_until(find)
