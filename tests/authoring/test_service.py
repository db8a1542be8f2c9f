"""The service: what is shown, what becomes of a submission, what the board and the history then say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scripted_author_session import ScriptedAuthorSession, unit

from warpsmith.authoring.answers import Answer
from warpsmith.authoring.author_views import ProfileView, VerdictView
from warpsmith.authoring.jobs import JobRequest, Submission
from warpsmith.authoring.prose import board_lines, history_md, verdict_lines
from warpsmith.authoring.service import AuthoringService
from warpsmith.config import Config
from warpsmith.errors import TaskError, UsageError
from warpsmith.records import Admission, BaselineTiming, Task


def submit(
    service: AuthoringService,
    task: Task,
    outcome: float | str,
    region: str = "all",
    author: str = "Ada",
    onto: str = "",
) -> VerdictView:
    one = Submission(units=(Answer(source=unit(outcome), region=region),), onto=onto)
    request = JobRequest(kind="verdict", task=f"archive:{task.id}", submissions=(one,), author=author)
    return service.wait(service.submit(request).job_id, 10).rows[0]


def profile(service: AuthoringService, task: Task) -> ProfileView:
    job = service.submit(JobRequest(kind="profile", task=f"archive:{task.id}"))
    view = service.wait(job.job_id, 10).profile
    assert view is not None
    return view


def test_a_task_is_shown_without_a_judge(service: AuthoringService, task: Task) -> None:
    view = service.read(service.task(f"archive:{task.id}"), "chain")
    assert any("n1 = aten.neg.default(n0) -> float32[4,8]" in line for line in view.graph)
    assert view.regions[0].number == 1
    header = service.header(task, "n0, n1")
    assert "in0_shape[] = {4, 8}" in header.task_h
    assert "// warpsmith-unit: 1" in header.rules
    assert "// covers: n0, n1" in header.example
    assert Path(header.helpers).is_file()
    assert service.region(task, "n1").inputs[0].value == "n0"
    assert any(row.name == "softmax_middle" and row.about for row in service.tasks())
    assert ScriptedAuthorSession.opened == 0


def test_header_for_a_gpu_needs_none(service: AuthoringService, task: Task) -> None:
    with AuthoringService(service.config, "cuda") as other:
        header = other.header(task, "all")
        assert "__constant__ int64_t in0_shape" in header.task_h
        assert "CUDA" in header.rules
        assert '#include "warpsmith_cuda_states.h"' in header.example
        assert any("16 bytes a load" in line for line in other.region(task, "all").techniques)


def test_a_submission_is_judged_kept_and_shown(service: AuthoringService, task: Task) -> None:
    wrong = submit(service, task, "incorrect", author="Eve")
    assert (wrong.correct, wrong.status, wrong.win) == (False, "incorrect", False)
    assert "budget at main/own, n0, n1" in wrong.evidence[0]
    assert wrong.speedup == ()
    good = submit(service, task, 2.0)
    assert (good.correct, good.win, good.confirmed) == (True, True, True)
    assert good.speedup[0].baseline == "eager"
    assert good.hardware
    assert service.verdict(good.candidate).candidate == good.candidate
    assert service.verdict(wrong.candidate).reason == "incorrect"
    rows = service.board(task)
    assert [(r.author, r.technique, r.confirmed) for r in rows] == [("Ada", "2.0", True)]
    history = service.history(task)
    assert [(r.author, r.status) for r in history] == [("Ada", "ok"), ("Ada", "ok"), ("Eve", "incorrect")]
    assert ScriptedAuthorSession.opened == 1


def test_what_is_printed_of_a_speedup_never_stands_alone(service: AuthoringService, task: Task) -> None:
    good = submit(service, task, 2.0)
    text = "\n".join(verdict_lines(good))
    board = "\n".join(board_lines(service.board(task)))
    for fact in ("2.00x [1.96, 2.04] over eager", "20% of the", "confirmed", good.hardware, "Ada"):
        assert fact in text
        assert fact in board
    assert "2.00x [1.96, 2.04] over eager, 20% of the limit" in history_md(service.history(task))


def test_the_same_is_not_judged_twice(service: AuthoringService, task: Task) -> None:
    first = submit(service, task, "incorrect")
    again = submit(service, task, "incorrect", author="Bob")
    assert first.candidate != again.candidate
    assert any("judged before" in note for note in again.notes)
    assert again.status == "incorrect"
    assert service.verdict(again.candidate).author == "Bob"
    assert len(service.history(task)) == 1


def test_what_may_come_out_otherwise_is_judged_again(service: AuthoringService, task: Task) -> None:
    submit(service, task, "crashed")
    assert submit(service, task, "crashed").notes == ()
    assert len(service.history(task)) == 2


def test_units_are_added_to_the_best(service: AuthoringService, task: Task) -> None:
    with pytest.raises(UsageError, match="no best candidate"):
        submit(service, task, 1.2, onto="best")
    submit(service, task, 1.1, region="n0")
    best = submit(service, task, 1.5, region="n0")
    both = submit(service, task, 1.8, region="n1", onto="best")
    assert both.parent == best.candidate
    assert both.units == ("n0", "n1")
    with pytest.raises(UsageError, match="no candidate 'nothing'"):
        submit(service, task, 1.8, onto="nothing")


def test_a_later_failure_takes_a_row_from_the_board(service: AuthoringService, task: Task) -> None:
    good = submit(service, task, 2.0)
    candidate = service.archive.candidate(good.candidate)
    assert candidate is not None
    result = service.archive.results(task.id, "cpu")[-1].result
    worse = result.model_copy(update={"status": "incorrect", "reason": "sanitizer", "timing": None})
    service.archive.add_result(None, candidate, worse)
    assert service.board(task) == []


def test_profile_opens_the_judge_once(service: AuthoringService, task: Task) -> None:
    view = profile(service, task)
    assert [n.node for n in view.nodes] == ["n1", "n0"]
    submit(service, task, 1.5)
    assert ScriptedAuthorSession.opened == 1
    assert service.stage == "opening the scripted judge"


def test_names_that_lead_nowhere(service: AuthoringService, tmp_path: Path) -> None:
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
            service.task(spec)
        assert len(str(caught.value).splitlines()) == 1
    for suite in ("nowhere", "a\0b", "x" * 5000):
        with pytest.raises((UsageError, TaskError)):
            service.tasks(suite)
    with pytest.raises(UsageError, match="no candidate"):
        service.verdict("nothing")
    with pytest.raises(UsageError, match="known: cpu, cuda"):
        AuthoringService(Config(archive=tmp_path / "a.db"), "tpu")


def test_judging_for_a_gpu_without_one(
    service: AuthoringService, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsmith.machine.gpu", lambda: None)
    with AuthoringService(service.config, "cuda") as other:
        one = Submission(units=(Answer(source=unit(1.0)),))
        with pytest.raises(UsageError, match="bundle create"):
            other.submit(JobRequest(kind="verdict", task=f"archive:{task.id}", submissions=(one,)))


def test_a_quarantined_task_is_marked(
    service: AuthoringService, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    quarantined = Admission(admitted=False, mutants={"zeros": "admitted"}, reasons=("zeros pass",))
    made = ScriptedAuthorSession.__init__

    def init(self: ScriptedAuthorSession, *given: Any) -> None:
        made(self, *given)
        self.judge.admission = quarantined
        eager = BaselineTiming(name="eager", ok=True, median_us=100.0)
        self.archive.note_run(self.run_id, (eager,), None, quarantined)

    monkeypatch.setattr(ScriptedAuthorSession, "__init__", init)
    assert "zeros pass" in submit(service, task, 2.0).notes[0]
    assert service.board(task)[0].note == "quarantined: a cheat passes on this task"
    assert "zeros pass" in profile(service, task).notes
    assert service.read(task).baselines == {"eager": 100.0}
