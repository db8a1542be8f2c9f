"""An author whose service is elsewhere: the calls of `Author` over HTTP.

In: a URL and a token. Out: views, validated. A task file of this machine is handed in with its first use. A server that is being restarted is
waited for: every call may be repeated, a submission too, since it carries a key.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2 as httpx
from pydantic import ValidationError

from .. import __version__, errors
from ..authoring.author import Overrides, ServiceView
from ..authoring.author_views import (
    AttemptRow,
    BoardRow,
    HeaderView,
    RegionView,
    SourceView,
    TaskRow,
    TaskView,
    VerdictView,
)
from ..authoring.jobs import JobRequest, JobView
from ..authoring.observing import Observation
from ..errors import UsageError, WarpsmithError
from ..knowledge.index import Passage
from ..tasks.load import MAX_FILE_BYTES
from .operations import PREFIX, find_operation

PATIENCE_SECONDS = 60.0  # for a server that does not answer
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.2, 3.0
ANSWER_SECONDS = 180.0  # of one call: loading a task may take a minute


class RemoteAuthor:
    """A context manager. Raises UsageError for a URL that is none, or a token that is refused; JudgeError where no server answers."""

    def __init__(
        self, url: str, token: str, patience_s: float = PATIENCE_SECONDS, progress: Callable[[str], None] = lambda text: None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:  # fmt: skip
        """`transport`: how requests travel; tests pass one that stays in the process."""
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"--server {url[:80]}: give http://HOST:PORT or https://HOST:PORT")
        self.url, self._patience_s, self._progress = url.rstrip("/"), patience_s, progress
        self._brought: dict[tuple[str, int, str], str] = {}  # (path, its time, overrides) → archive:ID
        self._http = httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=httpx.Timeout(ANSWER_SECONDS, connect=5.0),
            transport=transport, trust_env=False,
        )  # fmt: skip

    def __enter__(self) -> RemoteAuthor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def about(self) -> ServiceView:
        return self._call("about")

    def tasks(self, suite: str = "core") -> list[TaskRow]:
        return self._call("tasks", suite=suite)

    def open_task(self, task: str, overrides: Overrides = None) -> TaskRow:
        path = Path(task)
        if task.startswith("archive:") or not _is_file(path):
            return self._call("open_task", task=task, overrides=overrides)
        return self.add_task(path.stem, _read(path), overrides)

    def add_task(self, name: str, source: str, overrides: Overrides = None) -> TaskRow:
        return self._call("add_task", name=name, source=source, overrides=overrides)

    def read_task(self, task: str) -> TaskView:
        return self._call("read_task", task=self._bring(task))

    def region(self, task: str, region: str = "") -> RegionView:
        return self._call("region", task=self._bring(task), region=region)

    def header(self, task: str, region: str = "") -> HeaderView:
        return self._call("header", task=self._bring(task), region=region)

    def machine_page(self, gpu: str = "") -> str:
        return str(self._call("machine_page", gpu=gpu))

    def observe(self, task: str) -> Observation:
        return self._call("observe", task=self._bring(task))

    def history(self, task: str, last: int = 20) -> list[AttemptRow]:
        return self._call("history", task=self._bring(task), last=last)

    def board(self, task: str) -> list[BoardRow]:
        return self._call("board", task=self._bring(task))

    def knowledge(self, query: str, most: int = 3) -> list[Passage]:
        return self._call("knowledge", query=query, most=most)

    def verdict(self, candidate: str) -> VerdictView:
        return self._call("verdict", candidate=candidate)

    def source(self, candidate: str) -> SourceView:
        return self._call("source", candidate=candidate)

    def submit(self, request: JobRequest) -> JobView:
        key = request.key or secrets.token_hex(16)
        brought = request.model_copy(update={"task": self._bring(request.task), "key": key})
        return self._call("submit", request=brought.model_dump(mode="json"))

    def job(self, job: str, wait_s: float = 0.0) -> JobView:
        return self._call("job", job=job, wait_s=wait_s)

    def jobs(self, last: int = 20) -> list[JobView]:
        return self._call("jobs", last=last)

    def cancel(self, job: str) -> JobView:
        return self._call("cancel", job=job)

    def _bring(self, task: str) -> str:
        """Hand in a task file of this machine; any other name is the server's."""
        path = Path(task)
        if task.startswith("archive:") or not _is_file(path):
            return task
        key = (str(path.absolute()), path.stat().st_mtime_ns, "")
        if key not in self._brought:
            self._brought[key] = self.open_task(task).task
        return self._brought[key]

    def _call(self, name: str, /, **arguments: Any) -> Any:
        operation = find_operation(name)
        assert operation is not None
        response = self._send(f"{PREFIX}{name}", arguments)
        try:
            if response.status_code == 200:
                return operation.answer.validate_json(response.content)
        except ValidationError as error:
            version = response.headers.get("warpsmith-version", "unknown")
            raise UsageError(
                f"{self.url} answers in a form that this warpsmith does not know: it has version {version}, this is {__version__}"
            ) from error
        raise self._read_error(response)

    def _send(self, path: str, arguments: dict[str, Any]) -> httpx.Response:
        deadline, pause_s = time.monotonic() + self._patience_s, FIRST_PAUSE_SECONDS
        while True:
            try:
                response = self._http.post(path, json=arguments)
                if response.status_code not in (429, 503):
                    return response
                problem, wait_s = "it has too much to do", _read_wait(response)
            except httpx.TransportError as error:
                problem, wait_s = str(error) or type(error).__name__, pause_s
                pause_s = min(MAX_PAUSE_SECONDS, 2 * pause_s)
            if time.monotonic() + wait_s > deadline:
                raise errors.JudgeError(f"{self.url} does not answer: {problem}")
            self._progress(f"waiting for {self.url}: {problem}")
            time.sleep(wait_s)

    def _read_error(self, response: httpx.Response) -> WarpsmithError:
        if response.status_code == 401:
            return UsageError(
                f"{self.url} refuses this token: ask who runs it for one, and name its file with --token-file"
            )
        try:
            body = response.json()
            text, kind = str(body["error"]), str(body["kind"])
        except (ValueError, KeyError, TypeError):
            text, kind = (
                " ".join(response.text.split())[:200] or f"status {response.status_code}",
                "JudgeError",
            )
            text = f"{self.url}: {text}"
        return errors.make_error(kind, text)


def _is_file(path: Path) -> bool:
    try:
        return path.suffix == ".py" and path.is_file()
    except (OSError, ValueError):
        return False


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise errors.TaskError(f"{path} is larger than 1 MiB; a task is one Python file")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise errors.TaskError(f"cannot read {path}: {error}") from error


def _read_wait(response: httpx.Response) -> float:
    text = response.headers.get("retry-after", "")
    return min(30.0, float(text)) if text.isdigit() else 1.0
