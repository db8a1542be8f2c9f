"""A run of two tiers with a real compiler: what it keeps, what it claims, that it is replayed, resumed and reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from warpsmith.api import optimize_task
from warpsmith.archive.store import Archive
from warpsmith.config import Config
from warpsmith.records import Budget, RunSummary
from warpsmith.report.build import build_report
from warpsmith.report.markdown import render_markdown
from warpsmith.tasks.suites import core

pytestmark = [pytest.mark.slow, pytest.mark.alone]  # its timing must count
TASK = str(Path(core.__file__).parent / "layernorm_last.py")
SMALL = {"rows": 128}
VERDICTS = 3


def config(folder: Path) -> Config:
    return Config(
        archive=folder / "archive.db", cache=folder / "cache", baselines=("eager",), screening="on", confirm=1
    )


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory, with_peaks: Callable[[Path], Path],
    few_rounds: Callable[[], AbstractContextManager[None]],
) -> Iterator[tuple[Path, RunSummary]]:  # fmt: skip
    folder: Path = tmp_path_factory.mktemp("tiers")
    with_peaks(folder / "cache")
    with few_rounds():
        budget = Budget(evaluations=VERDICTS, seconds=None)
        yield folder, optimize_task(TASK, budget=budget, seed=3, config=config(folder), overrides=SMALL)


def test_more_is_screened_than_judged_and_the_best_was_confirmed(run: tuple[Path, RunSummary]) -> None:
    _, summary = run
    assert summary.status in ("win", "no-win", "too-busy")
    assert summary.evaluations == VERDICTS
    assert summary.screened > 2 * VERDICTS
    assert summary.best is not None
    assert summary.best.confirmed
    assert set(summary.seconds_by_phase) == {"set-up", "search", "confirmation"}
    assert sum(summary.seconds_by_stage.values()) <= summary.seconds


def test_the_archive_tells_the_tiers_apart(run: tuple[Path, RunSummary]) -> None:
    folder, summary = run
    archive = Archive(folder / "archive.db")
    entries = archive.run_entries(summary.run_id, as_judged=True)
    screened = [e for e in entries if e.result.status == "screened"]
    verdicts = [e for e in entries if e.kind == "search" and e.result.status != "screened"]
    assert len(screened) >= len(verdicts) >= VERDICTS
    assert {e.candidate.content_key for e in verdicts if e.result.status == "ok"} <= {
        e.candidate.content_key for e in screened
    }
    assert all(e.result.speedup is None and e.result.verdict is None for e in screened)
    assert {e.result.status for e in archive.list_kind("screened")} == {"screened"}
    assert all(e.result.status == "ok" for e in archive.list_kind("winners"))
    archive.close()


def test_it_is_replayed_without_a_judge(run: tuple[Path, RunSummary]) -> None:
    folder, summary = run
    again = optimize_task(TASK, config=config(folder), overrides=SMALL, replay=summary.run_id)
    assert (again.fault, again.status) == ("", summary.status)
    assert (again.evaluations, again.screened) == (summary.evaluations, summary.screened)
    assert again.best is not None
    assert summary.best is not None
    assert again.best.candidate_id == summary.best.candidate_id


def test_the_same_command_takes_the_finished_run(run: tuple[Path, RunSummary]) -> None:
    folder, summary = run
    budget = Budget(evaluations=VERDICTS, seconds=None)
    again = optimize_task(TASK, budget=budget, seed=3, config=config(folder), overrides=SMALL, reuse=True)
    assert again.run_id == summary.run_id or summary.status == "too-busy"


def test_the_report_claims_nothing_that_was_screened_only(run: tuple[Path, RunSummary]) -> None:
    folder, summary = run
    archive = Archive(folder / "archive.db")
    report = build_report(archive, summary.run_id)
    assert report.evaluations == VERDICTS
    text = render_markdown(report)
    assert "screened" in text
    assert not [f for f in report.failures if f.status == "screened"]
    assert len(report.progress) >= VERDICTS
    judged = {e.candidate.id for e in archive.run_entries(summary.run_id) if e.result.status != "screened"}
    assert {p.candidate_id for p in report.progress} <= judged
    bests = [0.0, *(p.best for p in report.progress)]
    assert bests == sorted(bests)
    assert all(
        p.speedup >= p.best for before, p in zip(bests, report.progress, strict=False) if p.best > before
    ), "the best rises by a speedup only; a later candidate may have none that is sure"
    archive.close()
