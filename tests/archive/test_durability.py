"""kill -9 loses no finished result, on either database; several processes write to one archive at once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from postgres_server import Server, why_not

from warpsmith.archive import Archive
from warpsmith.archive.store import config_key
from warpsmith.errors import ArchiveError

WRITER = Path(__file__).parent / "writer.py"


def start(where: Path | str, run_id: str, first: int, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(WRITER), str(where), run_id, str(first), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def wait_for_lines(writer: subprocess.Popen[str], count: int) -> list[str]:
    assert writer.stdout is not None
    return [writer.stdout.readline().strip() for _ in range(count)]


def test_kill_nine_loses_no_finished_result_and_the_run_can_be_resumed(where, make):
    writer = start(where, "killed", 0, 100_000)
    finished = wait_for_lines(writer, 20)
    writer.send_signal(signal.SIGKILL)
    assert writer.stdout is not None
    finished += writer.stdout.read().split()
    writer.wait()
    archive = Archive(where)
    kept = [e.candidate.id for e in archive.run_entries("killed")]
    assert kept[: len(finished)] == finished  # at most the one being written was not announced
    assert len(kept) <= len(finished) + 1
    run = archive.take_unfinished_run(make.task.id, "cpu", config_key({}))
    assert run is not None
    assert run.run_id == "killed"
    archive.close()


def test_several_processes_create_and_write_one_archive_at_once(where, make):
    writers = {run_id: start(where, run_id, 20 * n, 40) for n, run_id in enumerate(("one", "two", "three"))}
    told = {run_id: w.communicate(timeout=60)[0].split() for run_id, w in writers.items()}
    assert [w.returncode for w in writers.values()] == [0, 0, 0]
    archive = Archive(where)
    for run_id, ids in told.items():
        assert [e.candidate.id for e in archive.run_entries(run_id)] == ids
        assert len(ids) == 40
    assert len(archive.results(make.task.id, "cpu")) == 80  # those that two write are kept once
    archive.close()


@pytest.mark.slow
def test_a_storm_of_kill_nine_loses_nothing_and_doubles_nothing(where, make):
    """Writers of overlapping results die at random moments, opening and upgrading included, while others go on."""
    chance, told = random.Random(5), {}
    for wave in range(3):
        writers = {f"run-{wave}-{n}": start(where, f"run-{wave}-{n}", 10 * n, 100_000) for n in range(3)}
        wait_for_lines(next(iter(writers.values())), 1)
        for run_id, writer in writers.items():
            time.sleep(chance.uniform(0, 0.25))
            writer.send_signal(signal.SIGKILL)
            assert writer.stdout is not None
            told[run_id] = [line for line in writer.stdout.read().split("\n")[:-1] if line]
            writer.wait()
    archive = Archive(where)
    known = {run.run_id for run in archive.runs()}
    for run_id, ids in told.items():
        entries = archive.run_entries(run_id) if run_id in known else []
        kept = [e.candidate.id for e in entries]
        assert set(ids) <= set(kept)
        assert len(kept) == len(set(kept))
        assert [e.number for e in entries] == list(range(1, len(kept) + 1))
    results = archive.results(make.task.id, "cpu")
    assert len({e.result.id for e in results}) == len(results) > 0
    archive.close()


@pytest.mark.slow
def test_a_server_that_crashes_loses_no_finished_result(server, postgres_url):
    writer = start(postgres_url, "crashed", 0, 100_000)
    finished = wait_for_lines(writer, 20)
    server.stop("immediate")
    assert writer.stdout is not None
    finished += writer.stdout.read().split()
    assert writer.wait() != 0
    server.start()
    archive = Archive(postgres_url)
    kept = [e.candidate.id for e in archive.run_entries("crashed")]
    assert kept[: len(finished)] == finished
    archive.close()


def test_an_open_archive_outlives_a_restart_of_its_server(server, postgres_url, make):
    archive = Archive(postgres_url)
    archive.begin_run("run-1", make.task, "cpu", 7, {}, make.environment)
    server.stop("fast")
    with pytest.raises(ArchiveError, match=r"cannot be reached|was shut down") as caught:
        archive.add_candidate(make.candidate(1))
    assert "\n" not in str(caught.value)
    server.start()
    archive.add_result("run-1", make.candidate(1), make.ok(make.candidate(1)))
    assert len(archive.run_entries("run-1")) == 1
    archive.close()


def test_a_file_that_can_grow_no_more_is_one_line_and_keeps_what_was_finished(tmp_path, make):
    """The system's limit on the size of a file, in the midst of a write, as a full disk would be."""
    limited = [
        "prlimit",
        "--fsize=2000000",
        sys.executable,
        str(WRITER),
        str(tmp_path / "a.db"),
        "run-1",
        "0",
        "100000",
    ]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "what was finished before is kept" in done.stderr.splitlines()[-1]
    archive = Archive(tmp_path / "a.db")
    kept = [e.candidate.id for e in archive.run_entries("run-1")]
    assert kept == done.stdout.split()
    assert len(kept) > 10


@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_a_servers_full_disk_is_one_line_and_keeps_what_was_finished(make):
    """The server takes its limit on the size of a file for a full disk, in the midst of a page as a disk would be."""
    full = Server(limit_bytes=(2 << 20) + 4096)
    try:
        archive = Archive(full.make_database("small"))
        archive.begin_run("run-1", make.task, "cpu", 7, {}, make.environment)
        noise, kept, failure = random.Random(1), 0, ""
        while not failure and kept < 500:
            candidate = make.candidate(kept, noise=noise.randbytes(20_000).hex())
            try:
                archive.add_result("run-1", candidate, make.ok(candidate))
                kept += 1
            except ArchiveError as error:
                failure = str(error)
        assert "disk is full; what was finished before is kept" in failure
        assert len(archive.run_entries("run-1")) == kept > 0
        archive.close()
    finally:
        full.close()


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
