"""Suite tables: every task counts, wins are claimed only with their interval, losses and refusals are
listed.
"""

from __future__ import annotations

import json
from math import isclose, prod

from hypothesis import given
from hypothesis import strategies as st

from warpsmith.records import Best, Ratio, RunSummary
from warpsmith.report.suite import fast_p, geomean, suite_json, suite_table, suite_totals


def summary(
    name: str, best: float | None, low: float = 0.0, eager: float = 0.0, reason: str = ""
) -> RunSummary:
    if best is None:
        return RunSummary(
            run_id="", task=name, target="cpu", status="failed", reason=reason or "no Model in it"
        )
    over_eager = eager or best
    claimed = Best(
        label="two-pass", candidate_id="c", labels=("kernel",), median_us=100, limit_share=0.6,
        confirmed=True,
        speedup=Ratio(baseline="compile", median=best, low=low or best * 0.95, high=best * 1.05),
        speedup_eager=Ratio(baseline="eager", median=over_eager, low=over_eager * 0.9, high=over_eager * 1.1),
    )  # fmt: skip
    status = "win" if claimed.speedup.low > 1 else "no-win"
    return RunSummary(
        run_id="r",
        task=name,
        target="cpu",
        status=status,
        best=claimed,
        hardware="Example CPU",
        evaluations=9,
    )


SUITE = [summary("a", 2.0, eager=4.0), summary("b", 1.02, low=0.99), summary("c", 0.7), summary("d|e", None)]


def test_the_geometric_mean_is_over_all_tasks_and_no_win_counts_one():
    totals = suite_totals(SUITE)
    assert (totals["tasks"], totals["wins"], totals["no_wins"], totals["failed"]) == (4, 1, 2, 1)
    assert isclose(totals["geomean_best"], 2.0 ** (1 / 4))
    assert isclose(totals["geomean_eager"], 4.0 ** (1 / 4))


def test_fast_p_counts_all_tasks_and_needs_a_claimed_win_from_one_on():
    assert [fast_p(SUITE, p) for p in (0.0, 0.8, 1.0, 1.5, 2.0)] == [0.75, 0.5, 0.25, 0.25, 0.0]
    assert fast_p(SUITE, 2.0, eager=True) == 0.25
    assert fast_p([], 1.0) == 0.0


def test_a_quarantined_task_counts_as_nothing():
    assert fast_p([SUITE[0].model_copy(update={"admitted": False})], 0.0) == 0.0


def test_the_table_lists_every_task_losses_and_refusals():
    text = suite_table(SUITE)
    assert (
        "1 of 4 tasks won, 2 without a win, 1 failed. Geometric mean over all tasks: 1.19× the best baseline"
        in text
    )
    assert "2.00× \\[1.90, 2.10\\] | torch.compile | 4.00× \\[3.60, 4.40\\]" in text
    assert "Measured on Example CPU" in text
    losses = text.split("Losses and refusals:")[1]
    assert "- d\\|e (failed): no Model in it" in losses
    assert "- c (no-win): fastest verified 0.70×" in losses
    assert "- a " not in losses
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len({len(r.replace("\\|", "").split("|")) for r in rows[: len(SUITE) + 2]}) == 1


def test_json_holds_totals_and_every_summary():
    data = json.loads(suite_json(SUITE))
    assert data["totals"]["fast_p_best"]["1.0"] == 0.25
    assert [RunSummary.model_validate(t) for t in data["tasks"]] == SUITE


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=30))
def test_geomean_matches_the_product(values):
    assert isclose(geomean(values) ** len(values), prod(values), rel_tol=1e-6)
