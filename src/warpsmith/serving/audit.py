"""The audit log: one line of JSON a request, whoever it came from and whatever became of it. Never a token, never a source.

In: what is known of a request. Out: a file that only its owner reads, appended to, each line at once.
"""

from __future__ import annotations

import json
import os
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import UsageError

LOG = "warpsmith.audit"  # of a request's scope: the fields of its line
MAX_FIELD = 200  # characters of what a client named
SUBJECTS = ("task", "candidate", "job", "suite", "name", "kind")  # arguments that are logged


class AuditLog:
    """Safe to use from several threads. Raises UsageError where the file cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(f"the audit log {path} cannot be written: {error.strerror}") from error

    def write(self, **fields: Any) -> None:
        line = json.dumps({"at": datetime.now(UTC).isoformat(timespec="milliseconds"), **fields})
        with self._lock:
            os.write(self._file, f"{line}\n".encode())

    def close(self) -> None:
        with self._lock:
            os.close(self._file)


def name_subject(arguments: dict[str, Any]) -> dict[str, str]:
    """Pick what of a request's arguments says what it was about, cut to a line."""
    request = arguments.get("request")
    flat = {**arguments, **request} if isinstance(request, dict) else arguments
    return {k: str(flat[k])[:MAX_FIELD] for k in SUBJECTS if isinstance(flat.get(k), str) and flat[k]}


class Audited:
    """ASGI middleware, the outermost: whatever refuses a request, there is a line of it, before the answer has left as a whole. What is
    inside adds to `scope[LOG]`.
    """

    def __init__(self, app: ASGIApp, log: AuditLog) -> None:
        self.app, self.log = app, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started, status, is_written = time.monotonic(), 0, False
        address = scope["client"][0] if scope.get("client") else ""
        fields = {"client": "", "address": address, "operation": scope["path"].rpartition("/")[2][:60]}
        scope[LOG] = fields

        def write_once() -> None:
            nonlocal is_written
            if not is_written:
                is_written = True
                self.log.write(**fields, status=status, ms=round(1e3 * (time.monotonic() - started), 1))

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body" and not message.get("more_body", False):
                write_once()
            await send(message)

        try:
            await self.app(scope, receive, note_status)
        finally:
            write_once()
