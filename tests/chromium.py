"""A real browser for tests: Debian's Chromium, driven by Playwright. Where there is none, tests are skipped with one reason."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync",
)  # fmt: skip
NO_BROWSER = (
    "no browser: install Debian's chromium and the packages playwright and axe-playwright-python (extra dev)"
)
SHOTS_VARIABLE = "WARPSMITH_TEST_SHOTS"  # the folder that keeps screenshots


@contextmanager
def launch_browser() -> Iterator[Any]:
    """Launch Chromium without a window. Skips the test where there is none. While it is open, asyncio has a running loop in this thread: fixtures of
    it end with their module."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip(NO_BROWSER)
    if not Path(CHROMIUM).is_file():
        pytest.skip(NO_BROWSER)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield browser
        browser.close()


def expect(locator: Any) -> Any:
    """Wait for what is then asserted, from outside: a page's policy lets no test evaluate text in it again and again."""
    from playwright.sync_api import expect as expect_locator

    return expect_locator(locator)


class Watch:
    """Notes what a page must not do: messages of the console, errors, requests that leave the folder or the server, dialogs, failures."""

    def __init__(self, page: Any, origin: str) -> None:
        self.problems: list[str] = []
        page.on("console", self._note_message)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on(
            "dialog", lambda dialog: (self.problems.append(f"dialog: {dialog.message}"), dialog.dismiss())
        )
        page.on("requestfailed", self._note_failure)
        page.on(
            "request",
            lambda r: r.url.startswith((origin, "data:")) or self.problems.append(f"left the site: {r.url}"),
        )

    def _note_message(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console: {message.text}")

    def _note_failure(self, request: Any) -> None:
        if "ERR_ABORTED" not in str(request.failure):  # a download, or a page that was left
            self.problems.append(f"failed: {request.url}: {request.failure}")


def check_accessibility(page: Any) -> list[str]:
    """List what axe finds that is serious or critical."""
    from axe_playwright_python.sync_playwright import Axe

    options = {
        "resultTypes": ["violations"],
        "preload": False,
    }  # it may not fetch, as the policy of pages wants it
    violations = Axe().run(page, options=options).response["violations"]
    return [
        f"{v['id']} ({v['impact']}): {node['html'][:160]}"
        for v in violations
        if v["impact"] in ("serious", "critical")
        for node in v["nodes"][:3]
    ]


@contextmanager
def serve_folder(folder: Path) -> Iterator[str]:
    """Serve a folder on the loopback; yield its address."""
    handler = partial(_QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def find_shots_folder(name: str) -> Path:
    """Return the folder for screenshots that are kept."""
    default = Path(__file__).resolve().parents[1] / ".pytest_cache" / "screenshots"
    folder = Path(os.environ.get(SHOTS_VARIABLE) or default) / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None: ...
