"""A service that is killed at any stage of a job: the client waits, the next service goes on, and nothing is judged twice."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("httpx2")

from warpsmith.archive import Archive
from warpsmith.authoring.answers import Answer
from warpsmith.authoring.author import expect_success, wait_for_end
from warpsmith.authoring.jobs import JobRequest, Submission
from warpsmith.serving.client import RemoteAuthor
from warpsmith.testing import chain_task
from warpsmith.testing import write_scripted_unit as unit
from warpsmith.web.tokens import make_token

PROGRAM = Path(__file__).with_name("killed_server.py")
TOKEN = make_token()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "port").write_text(str(port))
    running: list[subprocess.Popen[bytes]] = []

    def one(stage: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(PROGRAM), str(port), TOKEN, str(tmp_path / "archive.db"), stage]
        running.append(subprocess.Popen(command))
        return running[-1]

    yield one
    for process in running:
        process.kill()
        process.wait()


@pytest.mark.parametrize("stage", ["accepted", "opening", "screening", "judging", "before-row", "confirming"])
def test_a_job_outlives_its_service(
    start: Callable[[str], subprocess.Popen[bytes]], tmp_path: Path, stage: str
) -> None:
    task = chain_task()
    Archive(tmp_path / "archive.db").add_task(task)
    first = start(stage)
    ends: list[int] = []

    def restart() -> None:
        ends.append(first.wait(60))
        start("none")

    keeper = threading.Thread(target=restart, daemon=True)
    keeper.start()
    url = f"http://127.0.0.1:{(tmp_path / 'port').read_text()}"
    with RemoteAuthor(url, TOKEN, patience_s=60) as author:
        batch = tuple(
            Submission(units=(Answer(source=unit(o), region="all"),)) for o in (1.2, 2.0, "incorrect")
        )
        request = JobRequest(kind="screen", task=f"archive:{task.id}", submissions=batch, confirm="best")
        job = expect_success(wait_for_end(author, author.submit(request), 60))
        jobs = author.jobs()
    assert ends == [-9]
    assert [row.status for row in job.rows] == ["screened", "ok", "incorrect"]
    assert job.rows[1].confirmed
    assert len(jobs) == 1  # the submission was repeated with its key
    done = Counter((tmp_path / "archive.judged").read_text().split("\n")[:-1])
    expected = {f"judged {key}": 1 for key in [line.split()[1] for line in done if line.startswith("judged")]}
    assert {k: n for k, n in done.items() if k.startswith("judged")} == expected
    assert sum(n for k, n in done.items() if k.startswith("screened")) == 3
