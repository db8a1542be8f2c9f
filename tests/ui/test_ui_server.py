"""The live page's server: who is let in, what a form becomes, how a stream tells news, and what a browser may run."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from live_server import TOKEN, Live, wait_until

from warpsmith.archive.activities import Activities
from warpsmith.archive.store import now
from warpsmith.errors import UsageError
from warpsmith.pipeline.live import STOPPED, LiveActivity
from warpsmith.records.live import LiveCandidate, LiveState
from warpsmith.testing import chain_task
from warpsmith.ui import serve
from warpsmith.ui.asking import ask

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>"


@pytest.fixture
def client(live: Live) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {TOKEN}", "origin": live.home}
    with httpx.Client(base_url=live.home, headers=headers) as opened:
        yield opened


def test_the_token_of_the_url_becomes_a_strict_cookie(live: Live) -> None:
    with httpx.Client() as browser:
        assert browser.get(live.home).status_code == 401
        assert browser.get(f"{live.home}/?token=wrong").status_code == 401
        led_on = browser.get(live.url)
        assert (led_on.status_code, led_on.headers["location"]) == (303, "/")
        cookie = led_on.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert browser.get(live.home).status_code == 200
        assert "script-src 'self'" in browser.get(live.home).headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/", "/events", "/live/x", "/static/ui.js", "/candidates/x"])
def test_nothing_is_shown_without_a_token(live: Live, path: str) -> None:
    assert httpx.get(f"{live.home}{path}").status_code == 401


def test_foreign_hosts_and_origins_are_refused_even_with_the_token(live: Live, client: httpx.Client) -> None:
    activity = Activities(live.archive.database).begin("run", "relu", "cpu", "", LiveState())
    assert client.get("/", headers={"host": "evil.example"}).status_code == 421
    for origin in ("http://evil.example", "null", f"http://localhost.evil.example:{live.port}"):
        assert client.get("/", headers={"origin": origin}).status_code == 403
        stop = client.post(f"/live/{activity}/stop", headers={"origin": origin})
        assert stop.status_code == 403
    silent = httpx.post(f"{live.home}/live/{activity}/stop", headers={"authorization": f"Bearer {TOKEN}"})
    assert silent.status_code == 403
    assert live.views.inbox.list_all(activity) == []
    assert client.post(f"/live/{activity}/stop").status_code == 303
    assert [r.kind for r in live.views.inbox.list_all(activity)] == ["stop"]


def test_it_listens_on_the_loopback_interface_alone(live: Live) -> None:
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {"127.0.0.1"} - {a for a in addresses if str(a).startswith("127.")}:
        with pytest.raises(OSError):
            socket.create_connection((str(address), live.port), timeout=1).close()


def test_a_stop_reaches_its_process_and_is_acknowledged(live: Live, client: httpx.Client) -> None:
    heard: list[str] = []
    with LiveActivity(live.archive, "suite", "core", "cpu", runs=3) as activity:
        activity.on_stop = heard.append
        client.post(f"/live/{activity.activity_id}/stop")
        wait_until(lambda: heard)
        page = client.get(f"/live/{activity.activity_id}").text
        assert "stopping" in page
    assert heard == [STOPPED]
    (request,) = live.views.inbox.list_all(activity.activity_id)
    assert request.status == "done"


@pytest.mark.parametrize(
    ("kind", "path", "why"),
    [("suite", "pin", "a suite takes no pin"), ("authors", "stop", "takes no requests"), ("run", "kernel", "has not begun yet"), ("run", "dance", "nothing here can be asked")],
)  # fmt: skip
def test_what_cannot_be_asked_is_said_in_a_line(live: Live, client: httpx.Client, kind: Any, path: str, why: str) -> None:  # fmt: skip
    activity = Activities(live.archive.database).begin(kind, "relu", "cpu", "", LiveState())
    answer = client.post(f"/live/{activity}/{path}", data={"source": "x"})
    assert answer.status_code == 422
    assert why in answer.text


def test_nothing_is_asked_of_what_has_ended(live: Live) -> None:
    activities = Activities(live.archive.database)
    ended = activities.begin("run", "relu", "cpu", "", LiveState())
    activities.end(ended, LiveState(), "win")
    activity = activities.get(ended)
    assert activity is not None
    with pytest.raises(UsageError, match="has ended"):
        ask(live.views, activity, "stop", {})


def test_text_of_an_archive_runs_nowhere(live: Live, client: httpx.Client) -> None:
    activities = Activities(live.archive.database)
    candidate = LiveCandidate(candidate_id=HOSTILE, label=HOSTILE, stage="timing")
    state = LiveState(
        stage=HOSTILE, candidates=(candidate,), authors=(HOSTILE,), outcomes={HOSTILE: 1}, pinned=HOSTILE, gpu=HOSTILE, lane=1,
        best_id=HOSTILE, best_label=HOSTILE,
    )  # fmt: skip
    activity = activities.begin("run", HOSTILE, "cpu", "", state)
    activities.note(activity, state, lines=[(now(), HOSTILE)])
    live.views.inbox.ask(activity, "pin", {})
    (request,) = live.views.inbox.list_all(activity)
    live.views.inbox.answer(request, "refused", HOSTILE)
    for text in (
        client.get("/").text,
        client.get(f"/live/{activity}").text,
        read_first_event(client, activity),
    ):
        assert "&lt;script&gt;" in text
        assert "<script>alert" not in text
        assert "<img" not in text


def test_a_stream_tells_everything_first_and_then_what_changed(live: Live, client: httpx.Client) -> None:
    activities = Activities(live.archive.database)
    activity = activities.begin("run", "relu", "cpu", "", LiveState(stage="loading"))
    with follow(client, activity) as events:
        first = next(events)
        assert {"state", "best", "progress", "stages", "attempts", "requests", "log"} <= set(first)
        activities.note(activity, LiveState(stage="searching"))
        second = next(events)
        assert set(second) == {"state"}
        assert "searching" in second["state"]


def test_a_suite_of_two_hundred_tasks_is_one_card_with_its_lanes(live: Live, client: httpx.Client) -> None:
    names = tuple(f"task{n}" for n in range(200))
    activities = Activities(live.archive.database)
    suite = activities.begin(
        "suite", "serving", "cuda", "", LiveState(runs=200, runs_done=150, waiting=names[150:])
    )
    for number in range(30):
        run = activities.begin("run", f"task{number}", "cuda", suite, LiveState(lane=1 + number % 4))
        activities.end(run, LiveState(lane=1 + number % 4), "no win")
    for lane in range(1, 5):
        activities.begin("run", f"task{149 + lane}", "cuda", suite, LiveState(lane=lane, gpu=f"GPU-{lane}"))
    overview = client.get("/").text
    assert overview.count('<li class="card"') + overview.count("<li class=card") == 5
    assert "150 of 200 runs done" in overview
    assert "lane 3, GPU GPU-3" in overview
    page = client.get(f"/live/{suite}").text
    assert page.count("<li class=card") == 34
    assert "To do: task150" in page


def test_the_site_is_built_when_it_is_asked_for(live: Live, client: httpx.Client) -> None:
    live.archive.add_task(chain_task())
    assert "Build the site" in client.get("/site").text
    assert client.get("/site/index.html").status_code == 404
    assert client.post("/site/build").status_code == 303
    wait_until(lambda: "Open the leaderboard" in client.get("/site").text)
    board = client.get("/site/index.html")
    assert board.status_code == 200
    assert "chain" in board.text
    assert client.get("/site/site.css").headers["content-type"].startswith("text/css")
    assert client.get("/site/../a.db").status_code == 404
    assert client.get("/site/%2e%2e/%2e%2e/etc/passwd").status_code == 404


def test_the_program_prints_one_url_that_opens(tmp_path) -> None:
    command = [sys.executable, "-m", "warpsmith", "ui", "--archive", str(tmp_path / "a.db"), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        url = program.stdout.readline().strip()
        assert httpx.get(url, follow_redirects=True).status_code in (200, 401)
        with httpx.Client(follow_redirects=True) as browser:
            assert browser.get(url).status_code == 200
        program.send_signal(signal.SIGINT)
        rest, errors = program.communicate(timeout=20)
        assert rest == ""
        assert "Traceback" not in errors


def test_a_port_that_is_taken_is_said_in_a_line(live: Live, tmp_path) -> None:
    from warpsmith.config import Config

    with pytest.raises(UsageError, match="choose another --port"):
        serve(Config(archive=tmp_path / "b.db"), live.port)


@contextmanager
def follow(client: httpx.Client, page: str) -> Iterator[Iterator[dict[str, str]]]:
    with client.stream("GET", "/events", params={"of": page}, timeout=20) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        yield (json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: "))


def read_first_event(client: httpx.Client, page: str) -> str:
    with follow(client, page) as events:
        return " ".join(next(events).values())
