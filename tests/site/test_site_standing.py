"""What counts: confirmations and failures stand, wins need a confirmation, nothing counts on a quarantined task."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.archive import Entry
from warpsmith.records import UNEXPLAINED, Lineage, Result, Timing, Verdict
from warpsmith.site.kernel_pages import list_kernels
from warpsmith.site.merging import TaskRecords
from warpsmith.site.standing import find_outcome, find_standing, list_standing_entries
from warpsmith.testing import chain_candidate, chain_task, scripted_result, scripted_screening


def make_entry(outcome: float | str, confirmed: bool = False, name: str = "a", **fields: Any) -> Entry:
    candidate = chain_candidate(name)
    return Entry(
        candidate=candidate, result=scripted_result(candidate, outcome, confirmed=confirmed), **fields
    )


def make_screened(estimate: float, name: str = "a") -> Entry:
    candidate = chain_candidate(name)
    return Entry(candidate=candidate, result=scripted_screening(candidate, estimate))


def change_timing(entry: Entry, **update: Any) -> Entry:
    timing = entry.result.timing
    assert isinstance(timing, Timing)
    return entry.model_copy(
        update={"result": entry.result.model_copy(update={"timing": timing.model_copy(update=update)})}
    )


def test_a_confirmation_stands_over_a_later_first_look() -> None:
    confirmed = make_entry(1.5, confirmed=True)
    assert find_standing([make_entry(3.0), confirmed, make_entry(4.0)]) is confirmed


def test_the_latest_of_confirmation_and_failure_stands() -> None:
    confirmed, failure = make_entry(1.5, confirmed=True), make_entry("incorrect")
    assert find_standing([confirmed, failure]) is failure
    assert find_standing([failure, confirmed]) is confirmed


def test_without_either_the_latest_correct_result_stands() -> None:
    latest = make_entry(1.1)
    assert find_standing([make_entry(3.0), latest, make_screened(9.0), make_entry("error")]) is latest


def test_a_failure_of_the_judge_says_nothing_unless_it_is_all() -> None:
    error = make_entry("error")
    assert find_standing([make_screened(2.0), error]) != error
    assert find_standing([error]) is error
    assert find_standing([]) is None


def test_imported_results_take_no_part_where_some_are_local() -> None:
    local = make_entry(1.2)
    assert find_standing([local, make_entry("incorrect", origin="imported")]) is local
    imported = make_entry(1.2, origin="imported")
    assert find_standing([imported]) is imported


@pytest.mark.parametrize(
    ("entry", "outcome"),
    [
        (make_entry(1.5, confirmed=True), "win"),
        (make_entry(1.5), "unconfirmed"),
        (make_entry(1.0, confirmed=True), "no win"),
        (make_entry(0.5, confirmed=True), "loss"),
        (make_entry("crashed"), "failed"),
        (make_screened(5.0), "screened"),
    ],
)
def test_outcomes(entry: Entry, outcome: str) -> None:
    assert find_outcome(entry, admitted=True) == outcome
    assert find_outcome(entry, admitted=False) == "quarantined"


def test_a_wide_interval_and_an_unexplained_gain_are_no_win() -> None:
    entry = make_entry(1.5, confirmed=True)
    ratio = entry.result.speedup
    assert ratio is not None
    wide = change_timing(entry, ratios=(ratio.model_copy(update={"low": 0.0}),))
    assert find_outcome(wide, admitted=True) == "too noisy"
    verdict = Verdict(correct=True, checks=(), labels=(UNEXPLAINED,), reasons=("nothing says why",))
    result: Result = entry.result.model_copy(update={"verdict": verdict})
    assert find_outcome(entry.model_copy(update={"result": result}), admitted=True) == "unexplained"


def test_candidates_of_one_content_are_one_kernel_everywhere() -> None:
    twins = [
        chain_candidate("a"),
        chain_candidate("a").model_copy(update={"lineage": Lineage(reason="again")}),
    ]
    results = (scripted_result(twins[0], 1.5, confirmed=True), scripted_result(twins[1], "incorrect"))
    entries = tuple(Entry(candidate=c, result=r) for c, r in zip(twins, results, strict=True))
    kernels = list_kernels(TaskRecords(chain_task(), (), entries, {}))
    assert [(k.candidate.id, k.outcome) for k in kernels] == [(c.id, "failed") for c in twins]
    assert len(list_standing_entries(entries)) == 1


def test_confirmed_comes_before_unconfirmed_then_the_low_end_counts() -> None:
    confirmed, slow = make_entry(1.2, True, "a"), make_entry(1.1, True, "b")
    fast, screened, failure = (
        make_entry(3.0, False, "c"),
        make_screened(9.0, "d"),
        make_entry("crashed", False, "e"),
    )
    wide = change_timing(
        make_entry(1.3, True, "f"),
        ratios=(slow.result.speedup.model_copy(update={"median": 1.3, "low": 0.9}),),
    )  # type: ignore[union-attr]
    order = list_standing_entries([failure, screened, fast, slow, wide, confirmed])
    assert [e.candidate.units[0].technique for e in order] == ["a", "b", "f", "c", "d", "e"]
