"""An algorithmic win is shown with what is left of it over the rewritten reference, or with why that was not timed."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample import RUN, RunMaker

from warpsmith import records as r
from warpsmith.archive import Archive
from warpsmith.report import build_report, render
from warpsmith.report.suite import suite_table
from warpsmith.testing import chain_graph

SLOWER = r.Ratio(baseline="eager", median=9.0, low=8.5, high=9.5)
OVER_REWRITTEN = r.Ratio(baseline="rewritten", median=1.3, low=1.2, high=1.4)
MEASURED = r.BaselineTiming(name="rewritten", ok=True, median_us=130.0, low_us=129.0, high_us=131.0)
DROPPED = r.BaselineTiming(name="rewritten", ok=False, reason="it gives other values than eager")


def archive_with(path: Path, rewritten: r.BaselineTiming | None, stated: bool) -> Archive:
    """A run whose one candidate was confirmed, as an algorithmic win."""
    archive = Archive(path / "a.db")
    run = RunMaker(archive)
    run.note()
    plain = run.candidate("algebraic-collapse")
    unit = plain.units[0].model_copy(update={"rewrite": chain_graph() if stated else None})
    candidate = plain.model_copy(update={"units": (unit,)})
    timed = rewritten is not None and rewritten.ok
    timing = r.Timing(
        median_us=100.0, low_us=99.0, high_us=101.0, cache="cold", samples=40, confirmed=True, rewritten=rewritten,
        ratios=(SLOWER, OVER_REWRITTEN) if timed else (SLOWER,),
    )  # fmt: skip
    verdict = r.Verdict(correct=True, checks=(), labels=("algorithmic", "general"))
    result = run._result(candidate, status="ok", verdict=verdict, timing=timing)
    archive.add_confirmation(RUN, candidate, result)
    run.finish(candidate, 100.0)
    return archive


def test_the_claim_is_over_the_best_of_all(tmp_path: Path) -> None:
    archive = archive_with(tmp_path, MEASURED, stated=True)
    report = build_report(archive, RUN)
    assert report.headline.startswith("softmax: 1.30× rewritten reference")
    (row,) = [b for b in report.baselines if b.best]
    assert (row.timing, row.speedup) == (MEASURED, OVER_REWRITTEN)
    assert not any("rewritten" in w for w in report.warnings)
    for format in ("text", "markdown", "html"):
        assert "rewritten reference" in render(archive, RUN, format)


@pytest.mark.parametrize(
    ("rewritten", "stated", "why"),
    [(DROPPED, True, "could not be measured: it gives other values"), (None, False, "No unit states its rewrite")],
)  # fmt: skip
def test_a_missing_rewritten_reference_is_told(
    tmp_path: Path, rewritten: r.BaselineTiming | None, stated: bool, why: str
) -> None:
    report = build_report(archive_with(tmp_path, rewritten, stated), RUN)
    assert any(why in warning for warning in report.warnings)


def test_a_suite_names_it_beside_the_label() -> None:
    best = r.Best(
        label="algebraic-collapse", candidate_id="c", labels=("algorithmic", "general"), speedup=OVER_REWRITTEN,
        speedup_eager=SLOWER, median_us=100.0, limit_share=0.5, confirmed=True, speedup_rewritten=OVER_REWRITTEN,
    )  # fmt: skip
    summary = r.RunSummary(run_id="r", task="a", target="cpu", status="win", best=best)
    text = suite_table([summary]).replace("\\", "")
    assert "algorithmic (1.30× [1.20, 1.40] rewritten reference), general" in text
