"""The contract of every face of the authors' service: in this process, over HTTP and over MCP the same calls have the same outcomes.

Subclass `AuthorContract`, say how to open an author of a service that judges by formula (`ScriptedAuthorSession`), and pytest runs it.
"""

from __future__ import annotations

from collections.abc import Callable

from ..authoring.answers import Answer
from ..authoring.author import Author, expect_success, wait_for_end
from ..authoring.jobs import Confirm, JobKind, JobRequest, JobView, Submission
from ..errors import WarpsmithError
from .scripted_author import ScriptedAuthorSession, write_scripted_unit

WAIT_SECONDS = 30.0


class AuthorContract:
    """Beside it must be the fixtures `author`, an author of a scripted service whose archive holds one chain of two nodes, and `spec`,
    that task's name.
    """

    def play(
        self, author: Author, spec: str, kind: JobKind, *outcomes: float | str, confirm: Confirm = "none", onto: str = ""
    ) -> JobView:  # fmt: skip
        submissions = tuple(
            Submission(
                units=(Answer(source=write_scripted_unit(o), region="all"),), onto=onto, note=f"try {o}"
            )
            for o in outcomes
        )
        request = JobRequest(kind=kind, task=spec, submissions=submissions, confirm=confirm, author="Ada")
        return expect_success(wait_for_end(author, author.submit(request), WAIT_SECONDS))

    def test_a_task_is_read_without_a_judge(self, author: Author, spec: str) -> None:
        opened = ScriptedAuthorSession.opened
        view = author.read_task(spec)
        assert view.regions[0].number == 1
        assert author.region(spec, "n1").inputs[0].value == "n0"
        assert "in0_shape" in author.header(spec, "1").task_h
        assert any(row.name == "softmax_middle" for row in author.tasks())
        assert author.knowledge("softmax", 1) is not None
        assert author.machine_page("h100") != author.machine_page("a100")
        assert author.board(spec) == []
        assert ScriptedAuthorSession.opened == opened

    def test_a_batch_is_screened_and_gets_no_verdict(self, author: Author, spec: str) -> None:
        judged = ScriptedAuthorSession.judged
        job = self.play(author, spec, "screen", 1.5, "incorrect", 2.0)
        assert [row.status for row in job.rows] == ["screened", "incorrect", "screened"]
        assert job.best == job.rows[2].candidate
        timed = job.rows[2].timed
        assert timed is not None
        assert timed.estimated
        assert (timed.baseline, timed.low_us < timed.us < timed.high_us) == ("eager", True)
        assert not any(row.win or row.correct for row in job.rows)
        assert ScriptedAuthorSession.judged == judged
        assert author.board(spec) == []

    def test_only_the_best_of_a_batch_is_judged_when_asked(self, author: Author, spec: str) -> None:
        judged = ScriptedAuthorSession.judged
        job = self.play(author, spec, "screen", 1.6, 2.5, confirm="best")
        assert [row.status for row in job.rows] == ["screened", "ok"]
        assert job.rows[1].confirmed
        assert ScriptedAuthorSession.judged == judged + 1
        assert [row.candidate for row in author.board(spec)] == [job.best]

    def test_a_verdict_is_kept_and_not_given_twice(self, author: Author, spec: str) -> None:
        judged = ScriptedAuthorSession.judged
        first, second = (self.play(author, spec, "verdict", 1.7).rows[0] for _ in range(2))
        assert (first.status, first.win, second.win) == ("ok", True, True)
        assert any("judged before" in note for note in second.notes)
        assert ScriptedAuthorSession.judged == judged + 1
        assert author.verdict(first.candidate).win

    def test_a_source_is_told_with_values_and_difference(self, author: Author, spec: str) -> None:
        text = write_scripted_unit(1.4, "T = 1 {1, 2, 4}")
        submission = Submission(units=(Answer(source=text, region="all"),))
        request = JobRequest(kind="screen", task=spec, submissions=(submission,), author="Ada")
        base = wait_for_end(author, author.submit(request), WAIT_SECONDS).rows[0].candidate
        assert author.source(base).units[0].source == text
        tune = JobRequest(kind="tune", task=author.source(base).task, candidates=(base,), settings=3)
        job = wait_for_end(author, author.submit(tune), WAIT_SECONDS)
        view = author.source(job.best)
        assert view.units[0].values == {"T": 4}
        assert view.parents == (base,)
        assert "-T = 1\n+T = 4" in view.difference
        assert any(row.candidate == job.best and row.values == {"T": 4} for row in author.history(spec))

    def test_a_compile_check_opens_no_judge(self, author: Author, spec: str) -> None:
        opened = ScriptedAuthorSession.opened
        job = self.play(author, spec, "check", 1.0)
        assert not job.checks[0].ok  # a scripted unit has no header
        assert job.checks[0].evidence
        assert ScriptedAuthorSession.opened == opened

    def test_code_is_looked_at_without_a_judge(self, author: Author, spec: str) -> None:
        candidate = self.play(author, spec, "screen", 1.2).rows[0].candidate
        opened = ScriptedAuthorSession.opened
        request = JobRequest(kind="inspect", task=spec, candidates=(candidate,))
        job = expect_success(wait_for_end(author, author.submit(request), WAIT_SECONDS))
        assert [view.candidate for view in job.code] == [candidate]
        assert "does not build" in job.code[0].units[0].reason  # a scripted unit has no header
        assert ScriptedAuthorSession.opened == opened

    def test_a_profile_is_a_job(self, author: Author, spec: str) -> None:
        profile = self.play(author, spec, "profile").profile
        assert profile is not None
        assert [n.node for n in profile.nodes] == ["n1", "n0"]

    def test_a_job_can_be_asked_for_again(self, author: Author, spec: str) -> None:
        job = self.play(author, spec, "verdict", 1.3)
        assert author.job(job.job_id).rows == job.rows
        assert author.jobs(5)[0].job_id == job.job_id
        assert author.cancel(job.job_id).state == "done"

    def test_an_error_is_one_line(self, author: Author, spec: str) -> None:
        for call in (
            lambda: author.read_task("archive:0123"),
            lambda: author.header(spec, "77"),
            lambda: author.verdict("nothing"),
            lambda: author.source("nothing"),
            lambda: author.job("nothing"),
            lambda: self.play(author, spec, "verdict"),
            lambda: self.play(author, spec, "verdict", 1.0, onto="nothing"),
        ):
            assert len(_catch(call).splitlines()) == 1


def _catch(call: Callable[[], object]) -> str:
    """Return the message of the error that a call must raise."""
    try:
        call()
    except WarpsmithError as error:
        return str(error)
    raise AssertionError("an error was expected")
