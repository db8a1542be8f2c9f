"""Whoever watches sees a session of authors: who hands in what, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from warpsmith.archive.activities import Activities
from warpsmith.archive.store import Archive
from warpsmith.authoring import author_session
from warpsmith.authoring.author_session import AuthorSession
from warpsmith.config import Config
from warpsmith.errors import JudgeError
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Admission, BaselineTiming, Candidate, Environment, Limit, Lineage, Result
from warpsmith.testing import chain_candidate, chain_task, scripted_result

HERE = Environment(
    cpu="scripted", cores=2, threads=2, memory_gb=1.0, simd="none", os="none", python="3", torch="0", compiler="none",
)  # fmt: skip


class StubJudge:
    trouble = ""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.baselines = {"eager": BaselineTiming(name="eager", ok=True, median_us=100.0)}
        self.limit = Limit(
            seconds=1e-6, least_bytes=1, flops=1, bytes_per_second=1e9, flops_per_second=1e9, bound="memory"
        )
        self.admission, self.environment, self.seconds = Admission(admitted=True, mutants={}), HERE, {}

    def open(self) -> None:
        if self.trouble:
            raise JudgeError(self.trouble)

    def close(self) -> None: ...


class StubExecutor:
    def __init__(self, judge: StubJudge) -> None: ...

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        return (scripted_result(c, 0.8, HERE.id) for c in candidates)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    monkeypatch.setattr(author_session, "ScreeningJudge", StubJudge)
    monkeypatch.setattr(author_session, "LocalExecutor", StubExecutor)
    return Archive(tmp_path / "a.db")


def open_session(archive: Archive, tmp_path: Path) -> AuthorSession:
    class Target:
        name, language = "cpu", "c++"

    return AuthorSession(
        chain_task(), Target(), Config(archive=tmp_path / "a.db"), archive, Scratch(), lambda text: None
    )  # type: ignore[arg-type]


def test_a_session_tells_its_authors_and_its_outcomes(archive: Archive, tmp_path: Path) -> None:
    session = open_session(archive, tmp_path)
    activities = Activities(archive.database)
    (activity,) = activities.list_open()
    assert (activity.kind, activity.title) == ("authors", "chain")
    update = {"lineage": Lineage(operator="given", agent="author", model="claude")}
    session.judge_candidate(chain_candidate("by-hand").model_copy(update=update))
    session.close()
    session.close()
    ended = activities.get(activity.activity_id)
    assert ended is not None
    assert ended.state.authors == ("claude",)
    assert ended.state.outcomes == {"ok": 1}
    assert ended.state.best_label == "by-hand"
    assert ended.ending == "closed after 1 submission"
    assert ended.run_id
    (line,) = [text for _, text in activities.list_lines(activity.activity_id)]
    assert line.startswith("claude: by-hand: ok, 0.80x [0.78, 0.82] over eager")


def test_a_session_whose_judge_does_not_open_says_so(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StubJudge, "trouble", "no memory")
    session = open_session(archive, tmp_path)
    with pytest.raises(JudgeError):
        session.judge_candidate(chain_candidate("by-hand"))
    session.close()
    (activity,) = Activities(archive.database).list_ended(5)
    assert activity.ending == "failed: no memory"
