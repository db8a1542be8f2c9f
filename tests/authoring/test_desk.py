"""The desk: what is shown, what becomes of a submission, what the board and the history then say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scripted_sitting import ScriptedSitting, unit

from warpsmith.authoring.answers import Answer
from warpsmith.authoring.desk import Desk
from warpsmith.authoring.prose import board_lines, history_md, verdict_lines
from warpsmith.authoring.sheets import VerdictSheet
from warpsmith.config import Config
from warpsmith.errors import TaskError, UsageError
from warpsmith.records import Admission, BaselineTiming, Task


def submit(
    desk: Desk, task: Task, outcome: float | str, region: str = "all", author: str = "Ada", onto: str = ""
) -> VerdictSheet:
    candidate = desk.candidate(task, [Answer(source=unit(outcome), region=region)], author=author, onto=onto)
    return desk.submit(task, candidate).result(10)


def test_a_task_is_shown_without_a_judge(desk: Desk, task: Task) -> None:
    sheet = desk.read(desk.task(f"archive:{task.id}"), "chain")
    assert any("n1 = aten.neg.default(n0) -> float32[4,8]" in line for line in sheet.graph)
    assert sheet.regions[0].number == 1
    header = desk.header(task, "n0, n1")
    assert "in0_shape[] = {4, 8}" in header.task_h
    assert "// warpsmith-unit: 1" in header.rules
    assert "// covers: n0, n1" in header.example
    assert Path(header.helpers).is_file()
    assert desk.region(task, "n1").inputs[0].value == "n0"
    assert any(row.name == "softmax_middle" and row.about for row in desk.tasks())
    assert ScriptedSitting.opened == 0


def test_header_for_a_gpu_needs_none(desk: Desk, task: Task) -> None:
    with Desk(desk.config, "cuda") as other:
        header = other.header(task, "all")
        assert "__constant__ int64_t in0_shape" in header.task_h
        assert "CUDA" in header.rules
        assert '#include "warpsmith_cuda_states.h"' in header.example
        assert any("16 bytes a load" in line for line in other.region(task, "all").techniques)


def test_a_submission_is_judged_kept_and_shown(desk: Desk, task: Task) -> None:
    wrong = submit(desk, task, "incorrect", author="Eve")
    assert (wrong.correct, wrong.status, wrong.win) == (False, "incorrect", False)
    assert "budget at main/own, n0, n1" in wrong.evidence[0]
    assert wrong.speedup == ()
    good = submit(desk, task, 2.0)
    assert (good.correct, good.win, good.confirmed) == (True, True, True)
    assert good.speedup[0].baseline == "eager"
    assert good.hardware
    assert desk.verdict(good.candidate).candidate == good.candidate
    assert desk.verdict(wrong.candidate).reason == "incorrect"
    rows = desk.board(task)
    assert [(r.author, r.technique, r.confirmed) for r in rows] == [("Ada", "2.0", True)]
    history = desk.history(task)
    assert [(r.author, r.status) for r in history] == [("Ada", "ok"), ("Ada", "ok"), ("Eve", "incorrect")]
    assert ScriptedSitting.opened == 1


def test_what_is_printed_of_a_speedup_never_stands_alone(desk: Desk, task: Task) -> None:
    good = submit(desk, task, 2.0)
    text = "\n".join(verdict_lines(good))
    board = "\n".join(board_lines(desk.board(task)))
    for fact in ("2.00x [1.96, 2.04] over eager", "20% of the", "confirmed", good.hardware, "Ada"):
        assert fact in text
        assert fact in board
    assert "2.00x [1.96, 2.04] over eager, 20% of the limit" in history_md(desk.history(task))


def test_the_same_is_not_judged_twice(desk: Desk, task: Task) -> None:
    first = submit(desk, task, "incorrect")
    again = submit(desk, task, "incorrect", author="Bob")
    assert first.candidate != again.candidate
    assert any("judged before" in note for note in again.notes)
    assert again.status == "incorrect"
    assert desk.verdict(again.candidate).author == "Bob"
    assert len(desk.history(task)) == 1


def test_what_may_come_out_otherwise_is_judged_again(desk: Desk, task: Task) -> None:
    submit(desk, task, "crashed")
    assert submit(desk, task, "crashed").notes == ()
    assert len(desk.history(task)) == 2


def test_units_are_added_to_the_best(desk: Desk, task: Task) -> None:
    with pytest.raises(UsageError, match="no best candidate"):
        submit(desk, task, 1.2, onto="best")
    submit(desk, task, 1.1, region="n0")
    best = submit(desk, task, 1.5, region="n0")
    both = submit(desk, task, 1.8, region="n1", onto="best")
    assert both.parent == best.candidate
    assert both.units == ("n0", "n1")
    with pytest.raises(UsageError, match="no candidate 'nothing'"):
        submit(desk, task, 1.8, onto="nothing")


def test_a_later_failure_takes_a_row_from_the_board(desk: Desk, task: Task) -> None:
    good = submit(desk, task, 2.0)
    candidate = desk.archive.candidate(good.candidate)
    assert candidate is not None
    result = desk.archive.results(task.id, "cpu")[-1].result
    worse = result.model_copy(update={"status": "incorrect", "reason": "sanitizer", "timing": None})
    desk.archive.add_result(None, candidate, worse)
    assert desk.board(task) == []


def test_profile_opens_the_judge_once(desk: Desk, task: Task) -> None:
    sheet = desk.profile(task).result(10)
    assert [n.node for n in sheet.nodes] == ["n1", "n0"]
    submit(desk, task, 1.5)
    assert ScriptedSitting.opened == 1
    assert desk.stage == "opening the scripted judge"


def test_names_that_lead_nowhere(desk: Desk, tmp_path: Path) -> None:
    for spec in (
        "archive:0123",
        str(tmp_path / "none.py"),
        "no_such_task",
        "",
        "a\0b.py",
        "x" * 400,
        "x" * 5000,
    ):
        with pytest.raises(TaskError) as caught:
            desk.task(spec)
        assert len(str(caught.value).splitlines()) == 1
    for suite in ("nowhere", "a\0b", "x" * 5000):
        with pytest.raises((UsageError, TaskError)):
            desk.tasks(suite)
    with pytest.raises(UsageError, match="no candidate"):
        desk.verdict("nothing")
    with pytest.raises(UsageError, match="known: cpu, cuda"):
        Desk(Config(archive=tmp_path / "a.db"), "tpu")


def test_judging_for_a_gpu_without_one(desk: Desk, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsmith.machine.gpu", lambda: None)
    with Desk(desk.config, "cuda") as other:
        candidate = other.candidate(task, [Answer(source=unit(1.0))])
        with pytest.raises(UsageError, match="bundle create"):
            other.submit(task, candidate)


def test_a_quarantined_task_is_marked(desk: Desk, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    quarantined = Admission(admitted=False, mutants={"zeros": "admitted"}, reasons=("zeros pass",))
    made = ScriptedSitting.__init__

    def init(self: ScriptedSitting, *given: Any) -> None:
        made(self, *given)
        self.judge.admission = quarantined
        eager = BaselineTiming(name="eager", ok=True, median_us=100.0)
        self.archive.note_run(self.run_id, (eager,), None, quarantined)

    monkeypatch.setattr(ScriptedSitting, "__init__", init)
    assert "zeros pass" in submit(desk, task, 2.0).notes[0]
    assert desk.board(task)[0].note == "quarantined: a cheat passes on this task"
    assert "zeros pass" in desk.profile(task).result(10).notes
    assert desk.read(task).baselines == {"eager": 100.0}
