"""Suite tables: every task counts, wins are claimed only with their interval, kinds of wins, losses and quarantined
tasks stand apart.
"""

from __future__ import annotations

import csv
import io
import json
from math import isclose, sqrt
from pathlib import Path

import pytest
from suite_sample import SUITE, ratio, summary

from warpsmith.records import RunSummary
from warpsmith.report.pages import WRITERS, format_of, write
from warpsmith.report.scores import Mean, find_verified_speedup, score, suite_totals, tasks_of
from warpsmith.report.suite import suite_json, suite_page, suite_table

QUARANTINED = summary("q", 9.0, status="no-win", admitted=False, reason="zeros pass on it")


def mean(summaries: list[RunSummary], over: str, among: str) -> Mean:
    return next(m for m in score(summaries).means if (m.over, m.among) == (over, among))


def rows_of(page_text: str, title: str) -> list[str]:
    """Lines of the table with this title in the text format."""
    block = next(b for b in page_text.split("\n\n") if b.startswith(title))
    return block.splitlines()[2:]


def test_the_geometric_mean_is_over_all_tasks_and_no_win_counts_one():
    totals = score(SUITE)
    assert (totals.tasks, totals.wins, totals.no_wins, totals.failed) == (4, 1, 2, 1)
    assert isclose(totals.geomean_best, 2.0 ** (1 / 4))
    assert isclose(totals.geomean_eager, 4.0 ** (1 / 4))


def test_means_over_correct_ones_show_losses_and_their_number():
    found = mean(SUITE, "best", "correct")
    assert found.tasks == 3
    assert isclose(found.geomean, (2.0 * 1.02 * 0.7) ** (1 / 3))
    assert found.median == 1.02
    assert mean(SUITE, "best", "wins").geomean == pytest.approx(2.0)
    assert mean(SUITE, "eager", "correct").median == 1.02


def test_a_mean_over_torch_compile_needs_its_ratios_not_that_it_was_the_best_baseline():
    """Summaries of version 0.1 do not have them: the tasks on which it was the best one would be a selection."""
    old = [s.model_copy(update={"best": s.best.model_copy(update={"ratios": ()})}) for s in SUITE[:3]]
    assert [m for m in score(old).means if m.over == "compile"] == []
    assert mean(SUITE, "compile", "all tasks").tasks == 4


def test_fast_p_is_the_published_one_and_surely_needs_the_whole_interval():
    totals = score(SUITE)
    assert totals.fast_p_best == {
        "0.0": 0.75, "0.5": 0.75, "0.8": 0.5, "1.0": 0.5, "1.2": 0.25, "1.5": 0.25, "2.0": 0.0,
    }  # fmt: skip
    assert totals.sure_p_best["1.0"] == 0.25
    assert totals.fast_p_eager["2.0"] == 0.25
    assert score([]).fast_p_best["1.0"] == 0.0


def test_a_quarantined_task_counts_as_nothing_and_stands_apart():
    totals = score([*SUITE, QUARANTINED])
    assert totals.quarantined == 1
    assert totals.fast_p_best["0.0"] == 0.6
    assert totals.geomean_best == pytest.approx(2.0 ** (1 / 5))
    assert find_verified_speedup(QUARANTINED) is None
    text = write(suite_page([*SUITE, QUARANTINED]), "text")
    assert [line.split()[0] for line in rows_of(text, "Tasks")] == ["a", "b", "c", "d|e"]
    assert [line.split()[0] for line in rows_of(text, "Quarantined")] == ["q"]


def test_algorithmic_wins_stand_apart_from_kernel_wins():
    left = ratio("rewritten", 1.5)
    won = summary("x", 8.0, kind="algorithmic")
    won = won.model_copy(update={"best": won.best.model_copy(update={"speedup_rewritten": left})})
    suite = [SUITE[0], won]
    totals = score(suite)
    assert totals.kinds == {"kernel": 1, "algorithmic": 1, "library": 0}
    assert totals.kernel_rate == 0.5
    assert mean(suite, "best", "kernel wins").geomean == pytest.approx(2.0)
    assert mean(suite, "best", "algorithmic wins").geomean == pytest.approx(8.0)
    assert mean(suite, "rewritten", "algorithmic wins").geomean == pytest.approx(1.5)
    fast = won.best.model_copy(update={"limit_share": 9.0})
    assert score([SUITE[0], won.model_copy(update={"best": fast})]).limit_share_median == 0.6


def test_samples_of_a_task_feed_the_metrics_at_k_and_its_median_one_stands_for_it():
    a = [summary("a", 4.0), summary("a", None), summary("a", 2.0)]
    b = [summary("b", None), summary("b", None), summary("b", 3.0)]
    totals = score([*a, *b])
    assert (totals.tasks, totals.samples) == (2, 3)
    assert [t.shown.best.speedup.median if t.shown.best else 0 for t in tasks_of([*a, *b])] == [2.0, 0]
    assert totals.geomean_best == pytest.approx(sqrt(2.0))
    by_k = {x.k: x for x in totals.at_k}
    assert list(by_k) == [1, 2, 3]
    assert by_k[1].pass_at_k == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert by_k[2].pass_at_k == pytest.approx((1 + 2 / 3) / 2)
    assert by_k[1].speedup_at_k == pytest.approx((6 / 3 + 3 / 3) / 2)
    assert by_k[3].speedup_at_k == pytest.approx((4 + 3) / 2)
    assert by_k[3].efficiency_at_k == pytest.approx((4 + 3) / 2 / 2)  # two threads


def test_k_is_what_every_task_has_samples_for_and_efficiency_needs_the_threads():
    assert [x.k for x in score([summary("a", 2.0), summary("a", 3.0), summary("b", 2.0)]).at_k] == [1]
    assert score([summary("a", 2.0, threads=0)]).at_k[0].efficiency_at_k is None
    assert score([]).at_k == ()


def test_the_markdown_lists_every_task_losses_and_refusals():
    text = suite_table(SUITE)
    assert "1 of 4 tasks won, 2 without a win" in text
    assert "Geometric mean over all tasks: 1.19× the best baseline" in text
    assert "2.00× \\[1.90, 2.10\\]** | **torch.compile** | **4.00× \\[3.80, 4.20\\]" in text
    assert "Measured on Example CPU" in text
    losses = text.split("Losses and refusals")[1]
    assert "| d\\|e | failed |  | no Model in it |" in losses
    assert "| c | no-win | 0.70×" in losses
    assert "| a |" not in losses


def test_json_holds_totals_and_every_summary():
    data = json.loads(suite_json(SUITE))
    assert data["totals"]["fast_p_best"]["1.0"] == 0.5
    assert data["totals"] == json.loads(json.dumps(suite_totals(SUITE)))
    assert [RunSummary.model_validate(t) for t in data["tasks"]] == SUITE
    json.loads(suite_json(SUITE[:1]), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_csv_has_one_row_a_run_with_plain_numbers_and_no_formulas():
    evil = summary('=1+1,"x"', 2.0, reason="-cmd")
    found = list(csv.DictReader(io.StringIO(write(suite_page([*SUITE, evil, evil]), "csv"))))
    assert len(found) == 6
    assert [row["sample"] for row in found[-2:]] == ["1", "2"]
    assert (found[0]["speedup_best"], found[0]["speedup_best_low"], found[0]["kind"]) == (
        "2",
        "1.9",
        "kernel",
    )
    assert found[3]["speedup_best"] == ""
    assert found[-1]["task"] == '\'=1+1,"x"'
    assert found[-1]["reason"] == "'-cmd"


def test_html_escapes_and_loads_nothing():
    page = write(suite_page([summary("<script>x</script>", 2.0)], "<b>"), "html")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "http://" not in page.replace("http-equiv", "")
    assert "default-src 'none'" in page


def test_every_format_tells_the_same_tasks_and_what_is_left():
    page = suite_page(SUITE, "core", left=3)
    for format in WRITERS:
        text = write(page, format)
        assert all(name in text.replace("\\", "") for name in ("a", "b", "c", "d|e"))
    for format in ("text", "markdown", "html"):
        assert "3 runs still to come" in write(page, format)
    assert json.loads(write(page, "json"))["left"] == 3
    assert [format_of(Path(f"x.{s}")) for s in ("md", "HTML", "csv", "txt", "json", "out")] == [
        "markdown", "html", "csv", "text", "json", "markdown",
    ]  # fmt: skip


def test_an_empty_suite_is_a_page_too():
    assert "0 of 0 tasks won" in write(suite_page([]), "text")
    assert write(suite_page([]), "csv").strip() == ""


def test_a_run_that_was_too_busy_to_tell_is_neither_won_nor_lost_and_shows_no_median() -> None:
    over = ratio("compile", 3.0, high=9.0).model_copy(update={"low": 0.0})
    busy = summary(
        "e", 3.0, status="too-busy", reason="the machine was too busy to confirm anything: it waited"
    )
    best = busy.best.model_copy(update={"speedup": over, "speedup_eager": over, "ratios": (over,)})
    page = suite_table([*SUITE, busy.model_copy(update={"best": best})])
    assert (
        "1 of 5 tasks won, 2 without a win (0 of them quarantined), 1 that the machine was too busy to tell, 1 failed"
        in page
    )
    (line,) = (x for x in page.splitlines() if x.startswith("| e |") and "unknown" in x and "r-e" in x)
    assert "unknown (too noisy: 0.00 to 9.00)" in line
    assert "3.00" not in page
    totals = score([busy.model_copy(update={"best": best})])
    assert (totals.too_busy, totals.wins, totals.no_wins, totals.geomean_best) == (1, 0, 0, 1.0)
    assert totals.at_k[0].pass_at_k == 1.0  # it is correct
    assert not [m for m in totals.means if m.among == "correct"]
