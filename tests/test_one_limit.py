"""One result shows one limit everywhere, also where the limit was measured again in the middle of its run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from scripted_run import StubExecutor, StubJudge, StubTarget

from warpsmith.archive.store import Archive
from warpsmith.authoring.outcomes import board
from warpsmith.config import Config
from warpsmith.pipeline import Outcome, Run
from warpsmith.pipeline import run as run_module
from warpsmith.processes.buffers import Scratch
from warpsmith.progress import SilentObserver
from warpsmith.records import Budget, Candidate, Limit, Result, UsedPeaks
from warpsmith.report.suite import suite_page
from warpsmith.testing import chain_task

BUSY = Limit(
    seconds=40e-6, least_bytes=400_000, flops=1, bytes_per_second=1e10, flops_per_second=1e12, bound="memory",
    peaks=UsedPeaks(key="b0511111", measured_at="2026-11-25T06:00:00+00:00", busy=True),
)  # fmt: skip
QUIET = BUSY.model_copy(
    update={
        "seconds": 20e-6, "bytes_per_second": 2e10,
        "peaks": UsedPeaks(key="9a1e1111", measured_at="2026-11-25T07:00:00+00:00"),
    }
)  # fmt: skip


class Judge(StubJudge):
    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()
        self.limit = BUSY
        self.baselines = {name: b.restate(BUSY) for name, b in self.baselines.items()}

    def remeasure_limit(self) -> Limit:
        self.limit = QUIET
        return self.limit


class Executor(StubExecutor):
    """The third candidate makes the judge doubt its limit."""

    def __init__(self, judge: Judge) -> None:
        super().__init__(judge)
        self.judge, self.count = judge, 0

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        for result in super().run(candidates):
            self.count += 1
            if self.count == 3:
                self.judge.remeasure_limit()
            yield self._at_limit(result)

    def confirm(self, candidate: Candidate) -> Result:
        return self._at_limit(super().confirm(candidate))

    def _at_limit(self, result: Result) -> Result:
        timing = result.timing
        update = {"timing": timing.restate(self.judge.limit) if timing else None}
        return result.model_copy(update=update)


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Run, Outcome]:
    monkeypatch.setattr(run_module, "ScreeningJudge", Judge)
    monkeypatch.setattr(run_module, "LocalExecutor", Executor)
    config = Config(archive=tmp_path / "archive.db", cache=tmp_path / "cache", near_limit=1e9, novelty=0.0)
    run = Run(
        chain_task(), StubTarget(), Budget(evaluations=8, seconds=None), config, Archive(config.archive),  # type: ignore[arg-type]
        SilentObserver(), Scratch(), seed=5,
    )  # fmt: skip
    return run, run.play()


def test_a_limit_that_changed_in_the_middle_is_one_limit_afterwards(
    played: tuple[Run, Outcome], command: Any
) -> None:
    run, outcome = played
    summary, archive = outcome.summary, run.archive
    record = archive.run(summary.run_id)
    judged = archive.run_entries(summary.run_id, as_judged=True)
    assert {e.result.timing.limit for e in judged if e.result.timing} == {BUSY, QUIET}

    # The run's record and its summary, as the command line and suites print it.
    assert record.limit == QUIET
    assert (summary.limit_us, summary.peaks) == (pytest.approx(20.0), QUIET.peaks)
    assert summary.best is not None
    assert summary.best.limit_share == pytest.approx(summary.limit_us / summary.best.median_us)
    assert all(b.limit_share == pytest.approx(20.0 / b.median_us) for b in record.baselines)
    assert outcome.best is not None
    assert outcome.best.result.timing is not None
    assert outcome.best.result.timing.limit == QUIET
    page = suite_page([summary])
    (cells,) = ({**dict(zip(page.rows.columns, row, strict=True))} for row in page.rows.rows)
    assert cells["peaks"] == "9a1e1111"
    assert float(cells["limit_us"]) / float(cells["median_us"]) == pytest.approx(
        float(cells["limit_share"]), rel=1e-4
    )

    # Every result of it, by whatever it is found.
    everywhere = [
        *archive.run_entries(summary.run_id), *archive.results(record.task_id, "cpu"), *archive.list_kind("winners"),
        *archive.list_kind("stones"), *archive.standing(record.task_id, "cpu"),
    ]  # fmt: skip
    timings = [e.result.timing for e in everywhere if e.result.timing is not None]
    timings += [
        r.timing for r in archive.index_judged_results(record.task_id, "cpu", record.environment.id).values() if r.timing
    ]  # fmt: skip
    assert len(timings) > len(judged)
    assert {t.limit for t in timings} == {QUIET}
    assert all(t.limit_share == pytest.approx(20.0 / t.median_us) for t in timings)
    assert [e.result.id for e in archive.run_entries(summary.run_id)] == [e.result.id for e in judged]
    rows = board(archive.results(record.task_id, "cpu"), record.environment.id, archive.environment, False)
    assert rows
    assert all(row.limit_share == pytest.approx(20.0 / row.median_us) for row in rows)
    assert {row.peaks for row in rows} == {QUIET.peaks}

    # The report: JSON for programs, HTML and the rest for people.
    where = ["--archive", str(archive.path)]
    report = json.loads(command("report", summary.run_id, "--json", "-", *where)[1])
    assert report["limit"]["peaks"] == {
        "key": "9a1e1111",
        "measured_at": "2026-11-25T07:00:00+00:00",
        "busy": False,
    }
    shares = [(a["limit_share"], a["median_us"]) for a in report["attempts"] if a["median_us"]]
    shares += [(b["timing"]["limit_share"], b["timing"]["median_us"]) for b in report["baselines"]]
    shares.append((report["claim"]["limit_share"], report["claim"]["median_us"]))
    assert all(share == pytest.approx(20.0 / us) for share, us in shares)
    for format in ("text", "markdown", "html"):
        text = command("report", summary.run_id, "--format", format, *where)[1]
        assert "9a1e1111" in text, format
        assert "b0511111" not in text, format
    shown = json.loads(command("archive", "show", summary.run_id, "--json", "-", *where)[1])
    assert {
        e["result"]["timing"]["limit"]["peaks"]["key"] for e in shown["entries"] if e["result"]["timing"]
    } == {"9a1e1111"}


def test_a_replay_goes_by_the_limits_as_they_were_known(played: tuple[Run, Outcome]) -> None:
    run, outcome = played
    again = run.replay(outcome.summary.run_id)
    assert not again.summary.fault
    assert (again.summary.limit_us, again.summary.peaks) == (outcome.summary.limit_us, outcome.summary.peaks)
    assert again.summary.best == outcome.summary.best
    assert again.summary.evaluations == outcome.summary.evaluations


def test_a_resumed_run_begins_with_the_limit_that_it_began_with(played: tuple[Run, Outcome]) -> None:
    from warpsmith.pipeline.summary import load_ground

    run, outcome = played
    ground = load_ground(run.archive.run(outcome.summary.run_id))
    assert ground is not None
    assert ground.limit == BUSY
    assert ground.facts.limit_us == pytest.approx(40.0)
