"""kill -9 loses no finished result, and two processes write to one archive at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

from warpsmith.archive import Archive
from warpsmith.archive.store import config_key

WRITER = Path(__file__).parent / "writer.py"


def start(path: Path, run_id: str, first: int, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(WRITER), str(path), run_id, str(first), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_kill_nine_loses_no_finished_result_and_the_run_can_be_resumed(tmp_path, make):
    path = tmp_path / "a.db"
    writer = start(path, "killed", 0, 100_000)
    assert writer.stdout is not None
    finished = [writer.stdout.readline().strip() for _ in range(20)]
    writer.send_signal(signal.SIGKILL)
    finished += writer.stdout.read().split()
    writer.wait()
    archive = Archive(path)
    kept = [e.candidate.id for e in archive.run_entries("killed")]
    assert kept[: len(finished)] == finished  # at most the one being written was not announced
    assert len(kept) <= len(finished) + 1
    run = archive.unfinished_run(make.task.id, "cpu", config_key({}))
    assert run is not None
    assert run.run_id == "killed"


def test_two_processes_create_and_write_one_archive_at_once(tmp_path, make):
    path = tmp_path / "new" / "a.db"
    writers = [start(path, "one", 0, 40), start(path, "two", 20, 40)]
    told = [w.communicate(timeout=60)[0].split() for w in writers]
    assert [w.returncode for w in writers] == [0, 0]
    archive = Archive(path)
    for run_id, ids in zip(("one", "two"), told, strict=True):
        assert [e.candidate.id for e in archive.run_entries(run_id)] == ids
        assert len(ids) == 40
    assert len(archive.results(make.task.id, "cpu")) == 60  # the twenty they share are kept once


def test_threads_share_one_archive(begun, make):
    archive = begun()
    candidates = [make.candidate(n) for n in range(24)]

    def write(part: int) -> None:
        for candidate in candidates[part::3]:
            archive.add_result("run-1", candidate, make.ok(candidate))

    threads = [threading.Thread(target=write, args=(part,)) for part in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(e.candidate.id for e in archive.run_entries("run-1")) == sorted(c.id for c in candidates)
