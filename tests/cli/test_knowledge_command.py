"""`knowledge` and `lessons`: what they print, as text and as JSON, and how they end."""

from __future__ import annotations

import json

from warpsmith.archive import Archive
from warpsmith.records import Lesson


def test_a_question_prints_the_pages_that_answer(command):
    code, out, _ = command("knowledge", "bank", "conflict", "--target", "cuda", "-n", "2")
    assert code == 0
    assert out.startswith(
        "# Shared-memory banks and conflicts (cuda-shared-memory-banks)\n\nShared memory has 32 banks"
    )
    assert out.count("\n# ") == 1
    assert "https://" in out
    code, out, _ = command("knowledge", "aten._softmax.default", "--json", "-")
    assert code == 0
    assert {"page", "title", "text", "score", "sources"} == set(json.loads(out)[0])
    assert len(json.loads(out)) == 3


def test_without_a_question_it_lists_the_titles(command):
    code, out, _ = command("knowledge", "--target", "cpu")
    assert code == 0
    assert "recipe-softmax" in out
    assert "cuda-clusters" not in out
    assert "cuda-clusters" in command("knowledge")[1]
    assert len(json.loads(command("knowledge", "--json", "-")[1])) > 35


def test_questions_without_an_answer_and_unknown_targets_are_one_line(command):
    code, out, err = command("knowledge", "zzqq")
    assert (code, out) == (2, "")
    assert err == "warpsmith: nothing is written about zzqq: `warpsmith knowledge` lists the pages\n"
    code, _, err = command("knowledge", "softmax", "--target", "tpu")
    assert (code, err) == (2, "warpsmith: no target tpu: there are cpu and cuda\n")
    assert command("lessons", "--target", "tpu")[0] == 2
    assert command("lessons", "--archive", "missing.db")[0] == 4


def test_lessons_are_listed_with_how_often_they_helped(command, tmp_path):
    assert "no lessons yet" in command("lessons")[1]
    archive = Archive(tmp_path / "archive.db")
    archive.add_lesson(Lesson(signature="build: x", target="cpu", problem="x", remedy="-a\n+b"))
    archive.add_lesson(Lesson(signature="timeout", target="cuda", problem="t", remedy="add a barrier"))
    archive.lesson_outcome("timeout", "cuda", "add a barrier", worked=False)
    code, out, _ = command("lessons")
    assert code == 0
    assert out.index("cpu  build: x\n  helped 1, failed 0; learnt 20") < out.index(
        "cuda  timeout\n  helped 1, failed 1"
    )
    assert "    -a\n    +b\n" in out
    assert "timeout" not in command("lessons", "--target", "cpu")[1]
    (told,) = json.loads(command("lessons", "--target", "cuda", "--json", "-")[1])
    assert (told["lesson"]["failed"], told["origin"]) == (1, "local")
