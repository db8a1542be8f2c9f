"""A language model on loopback that answers, or misbehaves, as a script says: for tests of whatever asks one.

In: a script, one item for each request in order (a text to answer, or a `Reply` for everything else), or a function
from the request to such an item. Out: an HTTP server that speaks OpenAI's chat-completions protocol
(https://platform.openai.com/docs/api-reference/chat), and the requests that it received.

    with ScriptedServer(["hello", failing(429, {"Retry-After": "1"}), cut_off("int ma")]) as server:
        config = Config(model="openai:scripted", base_url=server.base_url)
        ...
    assert len(server.requests) == 3
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Reply:
    """One answer of the server. The functions below make those that tests ask for."""

    text: str | None = ""
    finish: str = "stop"  # finish_reason: "length" is an answer that was cut off
    refusal: str | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0  # seconds before the first byte
    raw: bytes | None = None  # sent as the body, whatever it is
    hang_up_after: int | None = None  # bytes of the body after which the connection is closed
    input_tokens: int | None = None  # None: a quarter of the characters asked
    cached_tokens: int = 0
    output_tokens: int | None = None


@dataclass(frozen=True)
class Asked:
    """A request as it arrived."""

    path: str
    headers: dict[str, str]  # names in lower case
    body: dict[str, Any]
    at: float  # time.monotonic()

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def system(self) -> str:
        return self._join_texts("system", "developer")

    @property
    def prompt(self) -> str:
        return self._join_texts("user")

    def _join_texts(self, *roles: str) -> str:
        texts = [m.get("content") for m in self.body.get("messages", []) if m.get("role") in roles]
        return "\n".join(
            t if isinstance(t, str) else "".join(p.get("text", "") for p in t or ()) for t in texts
        )


def failing(
    status: int, headers: Mapping[str, str] | None = None, message: str = "scripted failure"
) -> Reply:
    """An HTTP error: 429 (with Retry-After, if given), 401, 404, 500 …"""
    body = json.dumps({"error": {"message": message, "type": "scripted", "code": None}}).encode()
    return Reply(status=status, headers=headers or {}, raw=body)


def slow(text: str, seconds: float) -> Reply:
    """An answer that takes long, to run into a time-out."""
    return Reply(text, delay=seconds)


def hang_up(text: str = "int main", after: int = 40) -> Reply:
    """The connection is closed in the middle of the body."""
    return Reply(text, hang_up_after=after)


def garbage() -> Reply:
    """A body that is no JSON."""
    return Reply(raw=bytes(range(256)))


def invalid_utf8(text: str = "naïve") -> Reply:
    """A well-formed answer whose text holds bytes that are no UTF-8."""
    body_bytes = json.dumps(completion(Reply(text + "@@"), "scripted", 10)).encode()
    return Reply(raw=body_bytes.replace(b"@@", b"\xff\xfe\x80"))


def huge(size: int = 2 << 20) -> Reply:
    """An answer of `size` characters."""
    return Reply("x" * size)


def empty() -> Reply:
    return Reply("")


def refusing(text: str = "I cannot help with that.") -> Reply:
    return Reply(None, refusal=text)


def cut_off(text: str) -> Reply:
    """An answer that stopped at the limit of output tokens."""
    return Reply(text, finish="length")


Item = str | Reply
Script = Sequence[Item] | Callable[[Asked], Item]


class ScriptedServer:
    """Serves while the `with` block lasts. A request after the script's last item gets status 400."""

    def __init__(self, script: Script) -> None:
        self.requests: list[Asked] = []
        self._script, self._lock, self._closing = script, threading.Lock(), threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def reply(self, asked: Asked) -> Reply:
        """The next item of the script, after its delay."""
        with self._lock:
            number = len(self.requests)
            self.requests.append(asked)
        if callable(self._script):
            item = self._script(asked)
        elif number < len(self._script):
            item = self._script[number]
        else:
            item = failing(400, message="the script has ended")
        reply = Reply(item) if isinstance(item, str) else item
        self._closing.wait(reply.delay)
        return reply


def completion(reply: Reply, model: str, asked: int) -> dict[str, Any]:
    """The body of an answer to a request of `asked` characters, as OpenAI's API shapes it."""
    spent = asked // 4 if reply.input_tokens is None else reply.input_tokens
    written = len(reply.text or "") // 4 + 1 if reply.output_tokens is None else reply.output_tokens
    message = {"role": "assistant", "content": reply.text, "refusal": reply.refusal}
    return {
        "id": "chatcmpl-scripted", "object": "chat.completion", "created": int(time.time()), "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish, "logprobs": None}],
        "usage": {
            "prompt_tokens": spent, "completion_tokens": written, "total_tokens": spent + written,
            "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
        },
    }  # fmt: skip


def _handler(server: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.loads(text)
            headers = {k.lower(): v for k, v in self.headers.items()}
            reply = server.reply(Asked(self.path, headers, body, time.monotonic()))
            with suppress(OSError):  # who asked may have given up
                self._send(reply, body, len(text))

        def _send(self, reply: Reply, body: dict[str, Any], asked: int) -> None:
            body_bytes = json.dumps(completion(reply, str(body.get("model", "")), asked)).encode()
            content = body_bytes if reply.raw is None else reply.raw
            self.send_response(reply.status)
            for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: reply.hang_up_after])
            if reply.hang_up_after is not None:
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """Tests read `requests`; nothing is printed."""

    return Handler
