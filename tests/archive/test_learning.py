"""Exchanges and lessons: kept at once, found again, counted once, and carried to other machines."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys

import pytest
from old_versions import write_old_archive

from warpsmith.archive import Archive, export_jsonl, import_jsonl
from warpsmith.archive.migrations import STEPS
from warpsmith.errors import ArchiveError
from warpsmith.records import Exchange, Lesson, Usage


def exchange(key: str = "k1", answer: str = "code", error: str = "", usd: float | None = 0.25) -> Exchange:
    return Exchange(
        key=key, role="synthesis", model="openai:m", system="s", prompt="p \x00 é\n", answer=answer, error=error,
        usage=Usage(input_tokens=10, output_tokens=5), usd=usd, seconds=1.5,
    )  # fmt: skip


def lesson(remedy: str = "include <cmath>", signature: str = "build: x", **fields: object) -> Lesson:
    return Lesson(signature=signature, target="cpu", problem="x", remedy=remedy, **fields)


def test_exchanges_come_back_in_order_and_by_key(begun):
    archive = begun()
    asked = [exchange(key) for key in ("b", "a", "c")]
    for one in asked:
        archive.add_exchange("run-1", one)
    assert archive.exchanges("run-1") == asked
    assert archive.find_exchange("run-1", "a") == asked[1]
    assert archive.find_exchange("run-1", "z") is None
    assert archive.find_exchange("run-2", "a") is None
    assert archive.exchanges("run-2") == []


def test_an_answer_stays_and_a_failure_makes_way(begun, sql):
    archive = begun()
    archive.add_exchange("run-1", exchange("lost", "", error="timed out"))
    archive.add_exchange("run-1", exchange("other"))
    archive.add_exchange("run-1", exchange("lost", "second try", usd=None))
    archive.add_exchange("run-1", exchange("lost", "third try"))
    archive.add_exchange("run-1", exchange("lost", "", error="timed out"))
    assert [e.key for e in archive.exchanges("run-1")] == ["lost", "other"]
    found = archive.find_exchange("run-1", "lost")
    assert (found.answer, found.error, found.usd) == ("second try", "", None)
    rows = sql("SELECT key, role, model, usd, tokens, origin FROM exchanges ORDER BY key")
    assert rows == [
        ("lost", "synthesis", "openai:m", None, 15, "local"),
        ("other", "synthesis", "openai:m", 0.25, 15, "local"),
    ]


def test_an_exchange_belongs_to_a_run(begun):
    archive = begun()
    with pytest.raises(ArchiveError, match="no run nope: begin it first"):
        archive.add_exchange("nope", exchange())
    assert archive.counts()["exchanges"] == 0


ASKER = """
import sys
from pathlib import Path
from warpsmith.archive import Archive
from warpsmith.records import Exchange
archive = Archive(sys.argv[1])
for n in range(100_000):
    archive.add_exchange("run-1", Exchange(key=str(n), role="compile", model="m", system="", prompt="", answer="a"))
    print(n, flush=True)
"""


def test_kill_nine_loses_no_exchange(begun):
    archive = begun()
    archive.release_run("run-1")  # the asker is another process
    command = [sys.executable, "-c", ASKER, archive.name]
    asker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert asker.stdout is not None
    told = [asker.stdout.readline().strip() for _ in range(20)]
    asker.send_signal(signal.SIGKILL)
    told += asker.stdout.read().split()
    asker.wait()
    kept = [e.key for e in Archive(archive.database.where).exchanges("run-1")]
    assert kept[: len(told)] == told
    assert len(kept) <= len(told) + 1


def test_lessons_are_ranked_by_how_often_they_helped(archive):
    for remedy in ("a", "b", "c"):
        archive.add_lesson(lesson(remedy))
    archive.add_lesson(lesson("b"))
    archive.add_lesson(lesson("elsewhere", signature="build: y"))
    archive.lesson_outcome("build: x", "cpu", "a", worked=False)
    archive.lesson_outcome("build: x", "cpu", "c", worked=False)
    archive.lesson_outcome("build: x", "cpu", "c", worked=False)
    found = archive.lessons("build: x", "cpu", limit=5)
    assert [(f.remedy, f.helped, f.failed) for f in found] == [("b", 2, 0), ("a", 1, 1)]  # c failed too often
    assert [f.remedy for f in archive.lessons("build: x", "cpu", limit=1)] == ["b"]
    assert archive.lessons("build: x", "cuda", limit=5) == []
    assert {k.lesson.remedy for k in archive.all_lessons()} == {"a", "b", "c", "elsewhere"}
    assert archive.all_lessons("cuda") == []


def test_a_candidate_counts_once(archive):
    for _ in range(2):  # as a resumed run does
        archive.add_lesson(lesson(candidate="c1"))
        archive.lesson_outcome("build: x", "cpu", "include <cmath>", worked=False, candidate="c2")
    archive.add_lesson(lesson(candidate="c3"))
    (found,) = archive.lessons("build: x", "cpu")
    assert (found.helped, found.failed, found.candidate) == (2, 1, "c1")


def test_a_resumed_run_sees_the_lessons_of_its_beginning(archive, begun):
    archive.add_lesson(lesson("a"))
    started = begun("later").run("later").started_at
    archive.add_lesson(lesson("b"))
    archive.lesson_outcome("build: x", "cpu", "a", worked=True)
    assert [(f.remedy, f.helped) for f in archive.lessons("build: x", "cpu", before=started)] == [("a", 1)]
    assert [(f.remedy, f.helped) for f in archive.lessons("build: x", "cpu")] == [("a", 2), ("b", 1)]


def test_an_outcome_of_an_unknown_lesson_is_refused(archive):
    with pytest.raises(ArchiveError, match="no lesson on this failure says: pray"):
        archive.lesson_outcome("build: x", "cpu", "pray", worked=True)


def test_exchanges_and_lessons_travel_and_are_marked(begun, tmp_path):
    archive = begun()
    archive.add_exchange("run-1", exchange())
    archive.add_lesson(lesson("a"))
    archive.add_lesson(lesson("b"))
    archive.lesson_outcome("build: x", "cpu", "a", worked=True)
    export_jsonl(archive, tmp_path / "out.jsonl")
    there = Archive(tmp_path / "there.db")
    there.add_lesson(lesson("b"))
    for _ in range(2):
        counts = import_jsonl(there, tmp_path / "out.jsonl")
        assert (counts.lines["exchange"], counts.lines["lesson"]) == (1, 2)
        assert there.exchanges("run-1") == [exchange()]
        kept = [(k.lesson.remedy, k.lesson.helped, k.origin) for k in there.all_lessons()]
        assert kept == [("a", 2, "imported"), ("b", 1, "local")]
    with sqlite3.connect(there.path) as raw:
        assert raw.execute("SELECT origin FROM exchanges").fetchall() == [("imported",)]
    there.add_lesson(lesson("a"))
    assert there.all_lessons()[0].origin == "local"  # it helped here too


def test_a_local_run_takes_no_exchange_from_outside(begun, tmp_path):
    archive = begun()
    archive.add_exchange("run-1", exchange("mine"))
    export_jsonl(archive, tmp_path / "out.jsonl")
    forged = (tmp_path / "out.jsonl").read_text().replace('"mine"', '"theirs"')
    (tmp_path / "out.jsonl").write_text(forged)
    import_jsonl(archive, tmp_path / "out.jsonl")
    assert [e.key for e in archive.exchanges("run-1")] == ["mine"]


def test_an_exchange_of_an_unknown_run_is_a_bad_line(begun, tmp_path):
    archive = begun()
    archive.add_exchange("run-1", exchange())
    export_jsonl(archive, tmp_path / "out.jsonl")
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    orphan = [line for line in lines if json.loads(line)["kind"] in ("header", "exchange")]
    (tmp_path / "out.jsonl").write_text("\n".join(orphan))
    with pytest.raises(ArchiveError, match=r"^out\.jsonl:2: an exchange of run run-1, which no line before"):
        import_jsonl(Archive(tmp_path / "there.db"), tmp_path / "out.jsonl")


def test_an_archive_of_the_first_version_opens_and_is_upgraded(tmp_path, make):
    path = tmp_path / "old.db"
    write_old_archive(path, make, 1)
    with sqlite3.connect(path) as raw:
        assert not raw.execute("SELECT name FROM sqlite_master WHERE name = 'exchanges'").fetchall()
    for _ in range(2):  # the second opening finds nothing to do
        archive = Archive(path)
        (entry,) = archive.run_entries("old")
        assert entry.candidate == make.candidate(1)
        archive.add_exchange("old", exchange())
        archive.add_lesson(lesson(candidate="c"))
        assert (len(archive.exchanges("old")), len(archive.all_lessons())) == (1, 1)
    with sqlite3.connect(path) as raw:
        assert raw.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone() == (
            str(len(STEPS)),
        )
