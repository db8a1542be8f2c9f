"""The fork server: workers are forked, each with an environment, a folder and randomness of its own, and start by themselves
where nothing can be forked."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from warpsmith.processes import fork_server, forked
from warpsmith.processes.forked import Forked, Unfit
from warpsmith.processes.worker import Worker, WorkerDied

HERE = Path(__file__).parent


def runs(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def started(folder: Path, inherit: bool = True, **variables: str) -> Worker:
    return Worker("place_worker", folder, env={"PYTHONPATH": str(HERE), **variables}, inherit=inherit)


def test_each_has_its_own_environment_folder_and_randomness(tmp_path: Path) -> None:
    with (
        started(tmp_path / "a", MINE="a") as one,
        started(tmp_path / "b", MINE="b", OMP_NUM_THREADS="1") as two,
    ):
        a, b = one.call("place"), two.call("place")
    assert a["parent"] == b["parent"] != os.getpid()
    assert (a["mine"], b["mine"]) == ("a", "b")
    assert (a["threads"], b["threads"]) == (os.environ.get("OMP_NUM_THREADS"), "1")
    assert [Path(p["folder"]).name for p in (a, b)] == ["a", "b"]
    assert a["session"] != b["session"]
    assert a["name"] == "place_worker"
    assert a["drawn"] != b["drawn"]
    assert a["processors"] == sorted(os.sched_getaffinity(0))
    assert a["path"][:2] == [str(tmp_path / "a"), str(HERE)]


def test_its_processors_are_those_of_the_thread_that_starts_it(tmp_path: Path) -> None:
    first = min(os.sched_getaffinity(0))
    found = []

    def start() -> None:
        os.sched_setaffinity(0, {first})
        with started(tmp_path) as worker:
            found.append(worker.call("place")["processors"])

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert found == [[first]]


def test_a_variable_that_is_read_at_the_start_has_a_server_of_its_own(tmp_path: Path) -> None:
    with started(tmp_path / "a") as one, started(tmp_path / "b", MALLOC_ARENA_MAX="1") as two:
        assert one.call("place")["parent"] != two.call("place")["parent"]


def test_without_inheritance_nothing_of_this_process_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", "secret")
    with started(tmp_path / "a") as one, started(tmp_path / "b", inherit=False) as two:
        assert one.call("place")["key"] == "secret"
        assert two.call("place")["key"] is None
        assert not isinstance(two.process, Forked)
        assert b"secret" not in Path(f"/proc/{two.process.pid}/environ").read_bytes()


def test_a_server_that_cannot_fork_lets_workers_start_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def why_unfit(*_: object) -> None:
        raise Unfit("CUDA has been started")

    monkeypatch.setattr("warpsmith.processes.worker.fork", why_unfit)
    with started(tmp_path) as worker:
        found = worker.call("place")
    assert found["parent"] == os.getpid()
    assert found["compilers"] == "1", "what compiles one module starts no others, forked or not"


def test_a_server_with_threads_says_that_it_cannot_fork(tmp_path: Path) -> None:
    server = forked.Server({"MALLOC_ARENA_MAX": "2"})
    files = [os.open(os.devnull, os.O_RDWR) for _ in range(3)]
    sys_path = {"PYTHONPATH": str(HERE)}
    message = {
        "module": "place_worker",
        "args": [],
        "env": sys_path,
        "folder": str(tmp_path),
        "processors": [0],
    }
    assert "unfit" not in server.ask(files, op="fork", preload=[], **message)
    answer = server.ask(
        files, op="fork", preload=["warpsmith.testing.starts_a_thread", "threads_at_import"], **message
    )
    assert "pid" in answer  # neither can be imported: the worker itself says so
    server = forked.Server({"PYTHONPATH": str(HERE), "MALLOC_ARENA_MAX": "3"})
    assert server.ask(files, op="fork", preload=["threads_at_import"], **message) == {"unfit": "2 threads"}


def test_an_answer_that_nobody_waited_for_is_not_taken_for_the_next(tmp_path: Path) -> None:
    with started(tmp_path, MALLOC_ARENA_MAX="5") as worker:
        server = worker.process._server  # type: ignore[union-attr]
        with server._lock:  # as an interrupt between sending and receiving leaves it
            server._asked += 1
            server._control.send(
                json.dumps({"op": "reap", "pid": os.getpid(), "number": server._asked}).encode()
            )
        assert server.ask(op="reap", pid=worker.process.pid) == {"code": None}
    assert worker.process.returncode is not None


def test_a_lost_server_takes_its_workers_with_it_and_is_replaced(tmp_path: Path) -> None:
    with started(tmp_path / "a", MALLOC_ARENA_MAX="4") as worker:
        os.kill(worker.call("place")["parent"], signal.SIGKILL)
        deadline = time.monotonic() + 10
        while (worker.alive or runs(worker.process.pid)) and time.monotonic() < deadline:
            time.sleep(0.01)
        with pytest.raises(WorkerDied, match="SIGKILL"):
            worker.call("place")
    with started(tmp_path / "b", MALLOC_ARENA_MAX="4") as again:
        assert again.call("place")["mine"] is None


NUMBERS = itertools.count(10)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> list[forked.Server]:
    """Those that a test starts, in an environment that no other test has a server for."""
    found: list[forked.Server] = []

    class Noted(forked.Server):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            found.append(self)

    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setenv("MALLOC_ARENA_MAX", str(next(NUMBERS)))
    monkeypatch.setattr(forked, "Server", Noted)
    return found


def wait_until_imported(folder: Path) -> bool:
    """Start workers until one has the module; return whether that one was forked."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with started(folder) as worker:
            if worker.call("place")["ahead"]:
                return isinstance(worker.process, Forked)
        time.sleep(fork_server.PAUSE_S + 0.1)
    raise AssertionError("it was not imported")


def test_modules_are_imported_ahead_once(tmp_path: Path, servers: list[forked.Server]) -> None:
    for _ in range(2):
        forked.start_ahead(["no_such_module", "imported_ahead"])
    assert wait_until_imported(tmp_path)
    assert len(servers) == 1


def test_what_may_start_threads_is_tried_in_a_child(tmp_path: Path, servers: list[forked.Server]) -> None:
    forked.start_ahead([], doubtful=["imported_ahead", "threads_at_import"])
    assert wait_until_imported(tmp_path)
    time.sleep(3 * fork_server.PAUSE_S)
    assert wait_until_imported(tmp_path), "what was fit is imported, and nothing after it"


def test_a_trial_that_is_under_way_lets_requests_through(
    tmp_path: Path, servers: list[forked.Server]
) -> None:
    forked.start_ahead(["imported_ahead"], doubtful=["slow_import"])
    assert wait_until_imported(tmp_path)


def test_a_server_that_was_fit_in_a_trial_only_is_replaced(
    tmp_path: Path, servers: list[forked.Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEEN_FILE", str(tmp_path / "seen"))
    forked.start_ahead([], doubtful=["threads_at_second_import", "imported_ahead"])
    with started(tmp_path / "before") as before:
        deadline = time.monotonic() + 30
        while len(servers) == 1 and time.monotonic() < deadline:
            with started(tmp_path / "after") as worker:
                assert isinstance(worker.process, Forked)
            time.sleep(fork_server.PAUSE_S + 0.1)
        assert len(servers) == 2
        assert before.call("place"), "what the first one has forked lives on"
    with started(tmp_path / "again") as worker:
        assert isinstance(worker.process, Forked)
    assert len(servers) == 2


@pytest.mark.parametrize(
    ("last", "count"), [("no_such_module", 1), ("threads_at_import", 1), ("place_worker", 2)]
)
def test_a_trial_counts_what_came_before_the_first_unfit_module(last: str, count: int) -> None:
    code = f"from warpsmith.processes.fork_fitness import count_fit; print(count_fit(['imported_ahead', {last!r}]))"
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), *sys.path[1:]])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=env)
    assert done.stdout == f"{count}\n", done.stderr


def test_who_asks_whether_a_worker_lives_does_not_wait_for_an_import(
    tmp_path: Path, servers: list[forked.Server]
) -> None:
    answers: list[bool] = []
    with started(tmp_path) as worker:
        server = worker.call("place")["parent"]
        servers[0].tell(op="ahead", modules=["slow_import"], doubtful=[])
        time.sleep(0.1)  # by now it imports
        asking = threading.Thread(target=lambda: answers.append(worker.alive))
        asking.start()
        asking.join(10)
        alive = list(answers)
        os.kill(server, signal.SIGKILL)
        asking.join()
    assert alive == [True]


@pytest.mark.parametrize("call", ["['slow_import']", "[], ['slow_import']"])
def test_a_server_that_imports_ahead_ends_with_its_supervisor(tmp_path: Path, call: str) -> None:
    code = f"""
import os, psutil, time
from warpsmith.processes import forked
forked.start_ahead({call})
deadline = time.monotonic() + 20
while len(family := psutil.Process().children(recursive=True)) < {1 + call.count(",")} and time.monotonic() < deadline:
    time.sleep(0.05)
time.sleep(0.3)  # by now it imports
print(*(p.pid for p in family))
"""
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), *sys.path[1:]])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=env)
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 1 + call.count(","), done.stderr
    deadline = time.monotonic() + 10
    while any(map(runs, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(runs, pids))


class Family:
    """Two descendants, the second a child of the first; whoever kills the first is told again that the parent is gone."""

    def __init__(self) -> None:
        self.killed: list[str] = []

    def children(self, recursive: bool) -> list[Descendant]:
        return [] if self.killed else [Descendant(self, "child"), Descendant(self, "grandchild")]


class Descendant:
    def __init__(self, family: Family, name: str) -> None:
        self.family, self.name = family, name

    def kill(self) -> None:
        self.family.killed.append(self.name)
        if self.name == "child":
            os.kill(os.getpid(), signal.SIGTERM)


def test_its_end_is_not_begun_again_while_it_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    family = Family()

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(fork_server.psutil, "Process", lambda: family)
    monkeypatch.setattr(fork_server.os, "_exit", leave)
    before = signal.signal(signal.SIGTERM, fork_server.end_server)
    try:
        with pytest.raises(SystemExit):
            fork_server.end_server()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert family.killed == ["child", "grandchild"]
