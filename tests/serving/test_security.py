"""What a stranger, or a client that is not content with its own, gets from the service: nothing, in one line, and a line in the audit log."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from scripted_author_session import unit
from served_author import Served

from warpsmith.authoring.answers import Answer
from warpsmith.authoring.author import wait_for_end
from warpsmith.authoring.jobs import JobKind, JobRequest, JobView, Submission
from warpsmith.errors import TaskError, UsageError, WarpsmithError
from warpsmith.serving.app import Limits
from warpsmith.serving.client import RemoteAuthor
from warpsmith.testing import ScriptedAuthorSession


def post(
    served: Served, path: str = "about", body: bytes = b"{}", token: str | None = None, **headers: str
) -> httpx2.Response:
    sent = {"Content-Type": "application/json", **headers}
    sent |= {"Authorization": f"Bearer {token}"} if token is not None else {}
    return httpx2.post(f"{served.url}/v1/{path}", content=body, headers=sent, timeout=20, trust_env=False)


def submit(
    author: RemoteAuthor, spec: str, outcome: float, kind: JobKind = "verdict", shared: bool = False
) -> JobView:
    one = Submission(units=(Answer(source=unit(outcome), region="all"),))
    request = JobRequest(kind=kind, task=spec, submissions=(one,), author="Ada", shared=shared)
    return wait_for_end(author, author.submit(request), 20)


def read_audit(served: Served) -> list[dict[str, Any]]:
    return [json.loads(line) for line in served.audit.read_text().splitlines()]


@pytest.mark.parametrize("token", [None, "wrong", "x" * 5000, "ada"])
def test_without_the_right_token_nothing_is_told(served: Served, spec: str, token: str | None) -> None:
    for path in ("about", "tasks", "nothing", "submit"):
        answer = post(served, path, token=token)
        assert answer.status_code == 401
        assert answer.json() == {"error": "a token of this service is needed", "kind": "UsageError"}
        assert answer.headers["www-authenticate"] == "Bearer"
    assert {line["status"] for line in read_audit(served)} == {401}
    assert ScriptedAuthorSession.opened == 0


def test_guessing_tokens_is_slowed_down(serve: Callable[..., Served]) -> None:
    served = serve(Limits(refused_burst=3, refused_per_second=0.001))
    codes = [post(served, token=f"guess-{n}").status_code for n in range(6)]
    assert codes == [401] * 3 + [429] * 3


def test_too_many_requests_wait(serve: Callable[..., Served]) -> None:
    served = serve(Limits(burst=5, per_second=0.001))
    answers = [post(served, token=served.tokens["ada"]) for _ in range(7)]
    assert [a.status_code for a in answers] == [200] * 5 + [429] * 2
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert post(served, token=served.tokens["eve"]).status_code == 200  # whose own share is untouched


@pytest.mark.parametrize("declared", [True, False])
def test_a_huge_body_is_refused(serve: Callable[..., Served], declared: bool) -> None:
    served = serve(Limits(body_bytes=10_000))
    body: Any = b" " * 20_000 if declared else (b" " * 1000 for _ in range(20))
    assert post(served, "submit", body, served.tokens["ada"]).status_code == 413
    assert read_audit(served)[-1]["status"] == 413


def test_a_slow_body_is_given_up(serve: Callable[..., Served]) -> None:
    served = serve(Limits(body_seconds=0.3))
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
        head = f"POST /v1/about HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nAuthorization: Bearer {served.tokens['ada']}\r\n"
        connection.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        answer = connection.recv(4096).decode()
    assert answer.startswith("HTTP/1.1 408")
    assert post(served, token=served.tokens["ada"]).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:80"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_a_foreign_host_or_origin_is_refused(served: Served, headers: dict[str, str], status: int) -> None:
    assert post(served, token=served.tokens["ada"], **headers).status_code == status
    assert read_audit(served)[-1]["status"] == status


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("about", b"[", "arguments: Invalid JSON"),
        ("about", b'{"x": 1}', "x: Extra inputs"),
        ("header", b"{}", "task: Field required"),
        ("job", b'{"job": 7}', "job: Input should be a valid string"),
        ("submit", b'{"request": {"kind": "evil", "task": "t"}}', "request.kind: Input should be"),
    ],
)
def test_a_malformed_request_is_one_line(served: Served, path: str, body: bytes, says: str) -> None:
    answer = post(served, path, body, served.tokens["ada"])
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(says)
    assert "\n" not in answer.json()["error"]


def test_only_operations_can_be_asked_for(served: Served) -> None:
    for path in ("nothing", "service", "_load", "__init__", "owner", "..%2f..%2fetc", ""):
        assert post(served, path, token=served.tokens["ada"]).status_code == 404
    assert httpx2.get(f"{served.url}/v1/about", trust_env=False).status_code == 405


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd", "../../etc/passwd", "task.py", "./task.py", "os:path", "core/../core/softmax_middle", "archive:../x", "tests",
        "softmax_middle/..", "a\0b", "x" * 900, "", ".", "~",
    ],
)  # fmt: skip
def test_a_name_is_never_a_path_of_the_server(
    author: RemoteAuthor, name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "task.txt").write_text("")
    for call in (author.read_task, lambda n: author.open_task(n), author.board):
        with pytest.raises((TaskError, UsageError)) as caught:
            call(name)
        assert len(str(caught.value).splitlines()) == 1
        assert str(tmp_path) not in str(caught.value)
    with pytest.raises(UsageError):
        author.tasks(name or "../core")
    with pytest.raises(TaskError):
        author.add_task(name, "x = 1")


def test_public_names_show_no_paths(author: RemoteAuthor, task: Any) -> None:
    rows = author.tasks()
    assert any(row.task == "softmax_middle" for row in rows)
    assert not any("/" in row.task and row.where != "archive" for row in rows)
    assert "/" not in author.header(f"archive:{task.id}", "1").helpers


def test_a_second_client_sees_nothing_that_is_not_its_own(served: Served, spec: str) -> None:
    with served.author("ada") as ada, served.author("eve") as eve:
        mine = submit(ada, spec, 2.0)
        candidate = mine.rows[0].candidate
        for call in (lambda: eve.job(mine.job_id), lambda: eve.cancel(mine.job_id)):
            with pytest.raises(UsageError, match="no job"):
                call()
        for read in (eve.source, eve.verdict):
            with pytest.raises(UsageError, match="no candidate"):
                read(candidate)
        request = JobRequest(kind="verdict", task=spec, candidates=(candidate,))
        with pytest.raises(UsageError, match="no candidate"):
            eve.submit(request)
        onto = Submission(units=(Answer(source=unit(1.0), region="n0"),), onto=candidate)
        with pytest.raises(UsageError, match="no candidate"):
            eve.submit(JobRequest(kind="verdict", task=spec, submissions=(onto,)))
        assert (eve.jobs(), eve.board(spec), eve.history(spec)) == ([], [], [])
        assert [row.candidate for row in ada.board(spec)] == [candidate]
        assert ada.source(candidate).units
        tune = JobRequest(kind="tune", task=spec, candidates=(candidate,), settings=2)
        wait_for_end(ada, ada.submit(tune), 20)
        assert eve.history(spec) == []


def test_what_is_shared_is_seen_and_built_upon(served: Served, spec: str) -> None:
    with served.author("ada") as ada, served.author("eve") as eve:
        candidate = submit(ada, spec, 2.0, shared=True).rows[0].candidate
        assert eve.source(candidate).author == "Ada"
        assert [row.candidate for row in eve.board(spec)] == [candidate]
        assert eve.jobs() == []  # the job itself stays its owner's


def test_a_task_that_a_client_brings_is_its_own(
    served: Served, monkeypatch: pytest.MonkeyPatch, task: Any
) -> None:
    other = task.model_copy(update={"name": "mine"})
    monkeypatch.setattr("warpsmith.authoring.task_catalog.load_task", lambda *_, **__: other)
    with served.author("ada") as ada, served.author("eve") as eve:
        brought = ada.add_task("mine", "class Model: ...")
        assert ada.read_task(brought.task).name == "mine"
        with pytest.raises(TaskError, match="no task"):
            eve.read_task(brought.task)
        assert brought.task not in [row.task for row in eve.tasks()]


def test_the_audit_log_has_a_line_a_request_and_no_secret(served: Served, spec: str) -> None:
    with served.author("ada") as ada:
        job = submit(ada, spec, 1.5)
        with pytest.raises(WarpsmithError):
            ada.source("nothing")
    text = served.audit.read_text()
    lines = read_audit(served)
    assert served.audit.stat().st_mode & 0o077 == 0
    assert served.tokens["ada"] not in text
    assert "warpsmith-unit" not in text
    assert lines[0] | {"at": "", "ms": 0, "bytes": 0} == {
        "at": "", "client": "ada", "address": "127.0.0.1", "operation": "submit", "bytes": 0, "task": spec, "kind": "verdict",
        "status": 200, "ms": 0,
    }  # fmt: skip
    assert any(line.get("job") == job.job_id for line in lines) or len(lines) == 2
    assert (lines[-1]["candidate"], lines[-1]["status"]) == ("nothing", 400)
