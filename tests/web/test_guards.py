"""Guards of an HTTP server: who is answered, how much is read, which headers an answer has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra `ui` is not installed")

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from warpsmith.web import guard_app, make_token, match_token, read_bearer
from warpsmith.web.origins import allow_hosts, allow_loopback

PORT = 8711
HOME = f"http://127.0.0.1:{PORT}"
MAX_BYTES = 100


async def echo(request: Request) -> PlainTextResponse:
    return PlainTextResponse((await request.body()).decode())


async def read_while_answering(request: Request) -> StreamingResponse:
    async def parts() -> Any:
        yield "begun"
        async for _ in request.stream():
            pass

    return StreamingResponse(parts())


def make_client(require_origin: bool = True) -> TestClient:
    app = Starlette(
        routes=[
            Route("/", echo, methods=["GET", "POST"]),
            Route("/answering", read_while_answering, methods=["POST"]),
        ]
    )
    guarded = guard_app(app, allow_loopback(PORT), require_origin=require_origin, max_body_bytes=MAX_BYTES)
    return TestClient(guarded, base_url=HOME)


@pytest.fixture
def client() -> Iterator[TestClient]:
    with make_client() as client:
        yield client


@pytest.mark.parametrize(
    "host", [f"127.0.0.1:{PORT}", f"localhost:{PORT}", f"[::1]:{PORT}", f"LOCALHOST:{PORT}"]
)
def test_a_host_of_this_machine_is_answered(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", f"127.0.0.1.evil.example:{PORT}", f"127.0.0.1:{PORT}@evil.example", ""],
)  # fmt: skip
def test_a_foreign_host_is_refused(client: TestClient, host: str) -> None:
    answer = client.get("/", headers={"host": host})
    assert answer.status_code == 421
    assert answer.text.count("\n") == 1


def test_two_hosts_are_refused() -> None:
    headers = [(b"host", f"127.0.0.1:{PORT}".encode()), (b"host", b"evil.example")]
    assert ask_raw(make_client().app, headers) == 421


def ask_raw(app: Any, headers: list[tuple[bytes, bytes]], kind: str = "http") -> int:
    """Ask with exactly these headers; the status, or the code that a WebSocket was closed with."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": kind,
        "method": "GET",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "headers": headers,
    }
    asyncio.run(app(scope, receive, send))
    return int(sent[0].get("status") or sent[0]["code"])


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1", f"https://127.0.0.1:{PORT}", f"{HOME}.evil.example", ""]
)  # fmt: skip
def test_a_foreign_origin_is_refused(client: TestClient, method: str, origin: str) -> None:
    assert client.request(method, "/", headers={"origin": origin}).status_code == 403


def test_what_changes_something_needs_an_origin(client: TestClient) -> None:
    assert client.post("/", content="hello").status_code == 403
    assert client.post("/", content="hello", headers={"origin": HOME}).text == "hello"
    assert client.get("/").status_code == 200


def test_programs_may_leave_the_origin_out_where_that_is_allowed() -> None:
    client = make_client(require_origin=False)
    assert client.post("/", content="hello").text == "hello"
    assert client.post("/", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert client.post("/", headers={"origin": "http://evil.example"}).status_code == 403


def test_a_websocket_of_a_foreign_page_is_refused() -> None:
    host = (b"host", f"127.0.0.1:{PORT}".encode())
    assert ask_raw(make_client().app, [host, (b"origin", b"http://evil.example")], "websocket") == 1008


def test_a_large_body_is_refused_by_its_header_or_on_the_way(client: TestClient) -> None:
    origin = {"origin": HOME}
    assert client.post("/", content="x" * MAX_BYTES, headers=origin).status_code == 200
    assert client.post("/", content="x" * (MAX_BYTES + 1), headers=origin).status_code == 413
    in_parts = client.post("/", content=(b"x" * 60 for _ in range(2)), headers=origin)
    assert in_parts.status_code == 413
    assert str(MAX_BYTES) in in_parts.text


def test_a_body_that_grows_too_large_within_the_answer_ends_it(client: TestClient) -> None:
    """No second answer is begun."""
    with pytest.raises(Exception, match="response already started"):
        client.post("/answering", content=(b"x" * 60 for _ in range(2)), headers={"origin": HOME})


def test_every_answer_says_what_a_browser_may_do_with_it(client: TestClient) -> None:
    for answer in (
        client.get("/"),
        client.get("/", headers={"host": "evil.example"}),
        client.get("/no-such-page"),
    ):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"


def test_hosts_leave_out_a_port_that_is_the_schemes_own() -> None:
    allowed = allow_hosts(["GPU.example"], 443, "https")
    assert allowed.hosts == {"gpu.example", "gpu.example:443"}
    assert "https://gpu.example" in allowed.origins
    assert allow_hosts(["gpu.example"], 8443, "https").hosts == {"gpu.example:8443"}


def test_tokens_match_only_themselves() -> None:
    token = make_token()
    assert len(token) > 40
    assert token != make_token()
    assert match_token(token, token)
    for wrong in (None, "", token[:-1], f"{token}x", token.swapcase(), "ü\ud800"):
        assert not match_token(wrong, token)
    assert not match_token("", "")


@pytest.mark.parametrize(
    ("header", "token"),
    [("Bearer abc", "abc"), ("bearer  abc ", "abc"), ("Basic abc", None), ("abc", None), ("Bearer", None), ("Bearer ", None), (None, None)],
)  # fmt: skip
def test_a_bearer_token_is_read_from_its_header(header: str | None, token: str | None) -> None:
    assert read_bearer(header) == token
