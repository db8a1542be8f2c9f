"""`export` offers a win that was confirmed in this environment; another is judged here first, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith import machine
from warpsmith.archive import Archive
from warpsmith.authoring import offering
from warpsmith.cli import results
from warpsmith.config import Config
from warpsmith.errors import UsageError
from warpsmith.records import Admission, Candidate, Result, RunSummary
from warpsmith.testing import chain_candidate, chain_task, scripted_result

TASK = chain_task()
HERE = machine.describe()
THERE = HERE.model_copy(update={"torch": "2.1.0"})
CANDIDATE = chain_candidate("a")


def confirmed(speedup: float, environment: str, of: Candidate = CANDIDATE) -> Result:
    return scripted_result(of, speedup, environment, confirmed=True)


@pytest.fixture(name="archive")
def _archive(tmp_path: Path) -> Archive:
    """A win of 3 that was confirmed with another torch."""
    archive = Archive(tmp_path / "a.db")
    archive.begin_run("run-1", TASK, "cpu", 7, {}, THERE)
    archive.add_confirmation("run-1", CANDIDATE, confirmed(3.0, THERE.id))
    return archive


class FakeSitting:
    """Judges with a speedup that a test sets, and keeps what it judged as a run, as a session does."""

    speedup = 2.0

    def __init__(self, task: object, target: object, config: object, archive: Archive, *_: object) -> None:
        self.archive, self.run_id, self.judge = archive, "run-2", self
        self.admission = Admission(admitted=True, mutants={})

    def judge_candidate(self, candidate: Candidate) -> Result:
        self.archive.begin_run(self.run_id, TASK, "cpu", 8, {}, HERE)
        result = confirmed(self.speedup, HERE.id)
        self.archive.add_confirmation(self.run_id, candidate, result)
        return result

    def close(self) -> None:
        self.archive.finish_run(RunSummary(run_id=self.run_id, task="chain", target="cpu", status="win"))


def offer(archive: Archive, confirm: bool = False, elsewhere: bool = False) -> tuple[str, str]:
    run, entry = results.offer(archive, *results.winner(archive, "run-1"), Config(), confirm, elsewhere)
    return run.run_id, run.environment.torch if entry.result.environment == run.environment.id else "?"


def test_a_win_of_another_environment_is_refused_in_one_line(archive: Archive) -> None:
    with pytest.raises(UsageError, match=r"torch 2\.1\.0 there, .* here.*--confirm .*--elsewhere") as caught:
        offer(archive)
    assert "\n" not in str(caught.value)


def test_it_is_written_for_elsewhere_when_asked_for(archive: Archive) -> None:
    assert offer(archive, elsewhere=True) == ("run-1", "2.1.0")


def test_it_is_judged_here_when_asked_for_and_then_offered(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offering, "AuthorSession", FakeSitting)
    assert offer(archive, confirm=True) == ("run-2", HERE.torch)
    monkeypatch.setattr(offering, "AuthorSession", None)
    assert offer(archive, confirm=True) == offer(archive) == ("run-2", HERE.torch)  # once is enough


def test_a_win_that_is_none_here_is_refused(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offering, "AuthorSession", FakeSitting)
    monkeypatch.setattr(FakeSitting, "speedup", 0.8)
    with pytest.raises(UsageError, match="the win of run run-1 is none on this machine: it is not faster"):
        offer(archive, confirm=True)


def test_of_a_tasks_wins_one_that_holds_here_comes_first(archive: Archive) -> None:
    other = chain_candidate("b")
    archive.begin_run("run-0", TASK, "cpu", 7, {}, HERE)
    archive.add_confirmation("run-0", other, confirmed(1.5, HERE.id, other))
    archive.begin_run("run-9", TASK, "cpu", 7, {}, THERE)
    archive.add_confirmation("run-9", CANDIDATE, confirmed(4.0, THERE.id))
    run, entry = results.winner(archive, "chain")
    assert (run.run_id, entry.candidate) == ("run-0", other)  # though run-9 is newer and faster
