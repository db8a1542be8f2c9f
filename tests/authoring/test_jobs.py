"""Jobs: cancelled, resumed, limited, kept for who asks later, hidden from who may not see."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from scripted_author_session import ScriptedAuthorSession, unit

from warpsmith.archive.owner import this_process
from warpsmith.authoring import job_journal
from warpsmith.authoring import service as module
from warpsmith.authoring.answers import Answer
from warpsmith.authoring.job_journal import JobJournal, find_journal
from warpsmith.authoring.jobs import JobKind, JobRequest, JobView, Submission
from warpsmith.authoring.service import AuthoringService
from warpsmith.errors import ArchiveError, UsageError
from warpsmith.places import ArchiveUrl
from warpsmith.records import Candidate, Result


def ask(spec: str, *outcomes: float | str, kind: JobKind = "screen", key: str = "") -> JobRequest:
    batch = tuple(Submission(units=(Answer(source=unit(o), region="all"),)) for o in outcomes)
    return JobRequest(kind=kind, task=spec, submissions=batch, key=key)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The scripted judge waits for this before its second candidate."""
    release, screen = threading.Event(), ScriptedAuthorSession.screen

    def slow(self: ScriptedAuthorSession, batch: Sequence[Candidate]) -> Iterator[tuple[Candidate, Result]]:
        for number, pair in enumerate(screen(self, batch)):
            if number:
                assert release.wait(10)
            yield pair

    monkeypatch.setattr(ScriptedAuthorSession, "screen", slow)
    yield release
    release.set()


def wait_for_row(service: AuthoringService, job: JobView) -> JobView:
    while not job.rows and not job.ended:
        job = service.job(job.job_id, 5)
    return job


def test_rows_are_there_before_the_job_has_ended(
    service: AuthoringService, spec: str, held: threading.Event
) -> None:
    job = wait_for_row(service, service.submit(ask(spec, 1.5, 2.0)))
    assert (job.state, len(job.rows)) == ("running", 1)
    held.set()
    assert len(service.wait(job.job_id, 10).rows) == 2


def test_a_cancelled_job_begins_no_more(service: AuthoringService, spec: str, held: threading.Event) -> None:
    running = wait_for_row(service, service.submit(ask(spec, 1.5, 2.0)))
    waiting = service.submit(ask(spec, 3.0))
    assert service.cancel(waiting.job_id).state == "cancelled"
    assert service.cancel(running.job_id).state == "cancelled"
    held.set()
    later = service.wait(service.submit(ask(spec, 1.1)).job_id, 10)
    assert later.state == "done"
    assert service.job(running.job_id).state == "cancelled"
    assert ScriptedAuthorSession.screened == 3  # of the first job both were under way; of the second none


def test_a_key_makes_two_submissions_one_job(service: AuthoringService, spec: str) -> None:
    first, second = (service.submit(ask(spec, 1.5, key="k"), owner="ada") for _ in range(2))
    other = service.submit(ask(spec, 1.5, key="k"), owner="eve")
    assert first.job_id == second.job_id != other.job_id


def test_jobs_of_a_process_that_ended_are_taken_over_once(
    service: AuthoringService, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = service.wait(service.submit(ask(spec, 1.5)).job_id, 10)
    lost = ended.model_copy(update={"job_id": "lost", "state": "running", "rows": (), "starts": 1})
    with monkeypatch.context() as other_process:
        other_process.setattr(
            job_journal, "this_process", lambda: f"{this_process().rpartition(':')[0]}:1.00"
        )
        service.journal.add(lost, "ada")
    assert service.resume() == 1
    assert service.resume() == 0
    job = service.wait("lost", 10, owner="ada")
    assert (job.state, job.starts, [r.status for r in job.rows]) == ("done", 2, ["screened"])
    assert ScriptedAuthorSession.screened == 1  # what the archive has is not screened again


def test_a_job_that_ends_its_service_each_time_is_given_up(
    service: AuthoringService, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = service.wait(service.submit(ask(spec, 1.5)).job_id, 10)
    deadly = ended.model_copy(update={"job_id": "deadly", "state": "running", "starts": module.MAX_STARTS})
    service.journal.add(deadly, "")
    monkeypatch.setattr(job_journal, "is_gone", lambda owner: True)
    service.resume()
    assert service.job("deadly").state == "failed"
    assert "ended 20 times" in service.job("deadly").error


def test_one_owner_has_only_so_many_jobs(
    service: AuthoringService, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 0)
    with pytest.raises(UsageError, match="wait for some"):
        service.submit(ask(spec, 1.5))


def test_a_job_of_an_earlier_service_is_read(service: AuthoringService, spec: str) -> None:
    job = service.wait(service.submit(ask(spec, 1.5)).job_id, 10)
    with AuthoringService(service.config, open_session=ScriptedAuthorSession) as later:
        assert later.job(job.job_id).rows == job.rows
        assert later.jobs()[0].job_id == job.job_id


def test_the_best_is_the_one_whose_time_is_sure(
    service: AuthoringService, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = ScriptedAuthorSession.screen

    def lucky(self: ScriptedAuthorSession, batch: Sequence[Candidate]) -> Iterator[tuple[Candidate, Result]]:
        """The second has the better median, and an interval that tells nothing."""
        for number, (candidate, result) in enumerate(screen(self, batch)):
            assert result.timing is not None
            wide = result.timing.model_copy(update={"low_us": 1.0, "high_us": 5000.0})
            yield candidate, result.model_copy(update={"timing": wide}) if number else result

    monkeypatch.setattr(ScriptedAuthorSession, "screen", lucky)
    job = service.wait(service.submit(ask(spec, 1.5, 2.6)).job_id, 10)
    assert job.best == job.rows[0].candidate
    assert job.rows[1].timed is not None
    assert job.rows[1].timed.speedup is None


def test_the_journal_lies_beside_the_archive_and_is_its_owners(tmp_path: Path) -> None:
    assert find_journal(tmp_path / "a.db", tmp_path / "cache") == tmp_path / "a.db.jobs"
    elsewhere = find_journal(ArchiveUrl("postgresql://u:secret@h/db"), tmp_path / "cache")
    assert elsewhere.parent == tmp_path / "cache"
    assert "secret" not in str(elsewhere)
    journal = JobJournal(tmp_path / "a.db.jobs")
    assert journal.path.stat().st_mode & 0o077 == 0
    journal.own("candidate", ["c"], "ada")
    assert journal.list_hidden("candidate", "eve") == {"c"}
    assert journal.list_hidden("candidate", "ada") == journal.list_hidden("candidate", "") == frozenset()
    (tmp_path / "broken").write_text("no database, and more than a few bytes of it" * 100)
    with pytest.raises(ArchiveError, match="cannot be used"):
        JobJournal(tmp_path / "broken")
