"""What is left to do follows from the rows alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from bundle_sample import ENVIRONMENT, FAST, FASTER, FIRSTS, TASK, WHOLE, WRONG, made, opening, result, row

from warpsmith.bundles.bundle import make_bundle
from warpsmith.bundles.journal import ResultRow, TaskRow
from warpsmith.bundles.manifest import BundleError
from warpsmith.bundles.running import select_candidates
from warpsmith.bundles.standing import Standing, compare_results, is_surely_slower


def standing(rows: Sequence[TaskRow | ResultRow], confirm: int = 3, canaries: int = 0) -> Standing:
    return Standing(made(canaries=canaries), rows, ENVIRONMENT.id, confirm)


def test_at_first_everything_is_left() -> None:
    here = standing(())
    assert here.list_to_judge(TASK.id) == [*made().candidates.values()]
    assert not here.is_done(TASK.id)
    assert here.list_remaining(TASK.id) == ["3 to judge", "the fastest to confirm"]


def test_what_was_judged_is_not_judged_again() -> None:
    here = standing(WHOLE[:3])
    assert here.list_to_judge(TASK.id) == [WRONG]
    assert here.list_remaining(TASK.id) == ["1 to judge", "the fastest to confirm"]


def test_the_fastest_is_confirmed_and_then_nothing_is_left() -> None:
    assert standing(WHOLE[:4]).choose_to_confirm(TASK.id) == FASTER
    done = standing(WHOLE)
    assert done.choose_to_confirm(TASK.id) is None
    assert done.is_done(TASK.id)
    assert done.list_remaining(TASK.id) == []
    assert done.find_fastest_confirmed(TASK.id) == FASTER


def test_a_win_that_does_not_hold_passes_the_turn_to_the_next_within_the_bound() -> None:
    rows = (*WHOLE[:4], row("confirmation", result(FASTER, "incorrect")))
    assert standing(rows).choose_to_confirm(TASK.id) == FAST
    assert standing(rows, confirm=1).choose_to_confirm(TASK.id) is None


def test_a_lucky_median_is_not_confirmed_before_a_steady_one() -> None:
    lucky = result(FAST, 3.0)
    assert lucky.timing is not None
    wide = lucky.timing.ratios[0].model_copy(update={"low": 0.8, "high": 6.0})
    timing = lucky.timing.model_copy(update={"ratios": (wide,)})
    rows = [
        opening(),
        row("search", lucky.model_copy(update={"timing": timing})),
        row("search", result(FASTER, 2.0)),
    ]
    assert standing(rows).choose_to_confirm(TASK.id) == FASTER


def test_of_candidates_that_do_not_win_only_the_first_is_confirmed() -> None:
    slow = [row("search", result(c, s)) for c, s in ((FAST, 0.8), (FASTER, 0.9), (WRONG, "crashed"))]
    rows = [opening(), *slow]
    assert standing(rows).choose_to_confirm(TASK.id) == FASTER
    rows.append(row("confirmation", result(FASTER, 0.9, confirmed=True)))
    assert standing(rows).choose_to_confirm(TASK.id) is None
    assert standing(rows).find_fastest_confirmed(TASK.id) == FASTER


def test_what_surely_does_not_win_is_not_confirmed_in_a_hurry() -> None:
    rows = [opening(), *(row("search", result(c, s)) for c, s in ((FAST, 0.7), (FASTER, 0.8), (WRONG, 0.5)))]
    assert is_surely_slower(rows[2].result)
    assert standing(rows).choose_to_confirm(TASK.id) == FASTER
    assert Standing(made(), rows, ENVIRONMENT.id, 3, quick=True).is_done(TASK.id)
    rows[2] = row("search", result(FASTER, 0.999))
    assert not is_surely_slower(rows[2].result), "its interval includes 1"
    assert Standing(made(), rows, ENVIRONMENT.id, 3, quick=True).choose_to_confirm(TASK.id) == FASTER


def test_what_the_judge_failed_at_is_tried_once_more() -> None:
    rows = [opening(), *FIRSTS, row("search", result(WRONG, "error"))]
    assert standing(rows).list_to_judge(TASK.id) == [WRONG]
    assert standing([*rows, rows[-1]]).list_to_judge(TASK.id) == []
    mended = standing([*rows, row("search", result(WRONG, "incorrect"))])
    assert mended.list_to_judge(TASK.id) == []
    known = mended.find_first(WRONG)
    assert known is not None
    assert known.status == "incorrect"


@pytest.mark.parametrize(("status", "tries"), [("task-error", 1), ("judge-error", 2)])
def test_a_task_that_cannot_be_opened_is_given_up(status: str, tries: int) -> None:
    failure = opening(status=status, reason="no")
    for count in range(tries):
        assert standing([failure] * count).why_given_up(TASK.id) == ""
    here = standing([failure] * tries)
    assert here.why_given_up(TASK.id) == "no"
    assert here.is_done(TASK.id)
    assert here.list_remaining(TASK.id) == []


def test_another_machine_is_another_matter() -> None:
    here = Standing(made(), WHOLE, "another environment", 3)
    assert len(here.list_to_judge(TASK.id)) == 3
    assert here.find_opening(TASK.id) is None


def test_a_task_without_candidates_wants_its_baselines() -> None:
    bare = make_bundle("cpu", [TASK], [])
    assert Standing(bare, (), ENVIRONMENT.id, 3).list_remaining(TASK.id) == ["baselines to measure"]
    assert Standing(bare, (opening(),), ENVIRONMENT.id, 3).is_done(TASK.id)


def test_canaries_are_judged_again_at_the_end_and_say_how_much_changed() -> None:
    assert (
        standing(WHOLE[:1], canaries=1).list_to_repeat(TASK.id) == []
    )  # nothing was judged a first time yet
    here = standing(WHOLE, canaries=5)
    assert here.canaries == [FAST]  # the first of the task that was correct
    assert standing(WHOLE, canaries=0).canaries == []
    assert here.list_to_repeat(TASK.id) == [FAST]
    assert here.list_remaining(TASK.id) == ["1 to repeat"]
    assert here.is_done(TASK.id)
    again = standing((*WHOLE, row("canary", result(FAST, 1.6))), canaries=1)
    assert again.list_to_repeat(TASK.id) == []
    assert again.measure_drift() == {FAST.id: "1.25 times as long as the first time"}
    assert compare_results(result(FAST, 2.0), result(FAST, "crashed")) == "was ok, then crashed"
    assert compare_results(result(FAST, "crashed"), result(FAST, "crashed")) == "crashed both times"


@pytest.mark.parametrize(
    ("only", "expected"),
    [((), 3), ((TASK.id,), 3), ((TASK.name,), 3), ((FAST.id,), 1), ((FAST.id, TASK.name), 3)],
)
def test_only_some_can_be_chosen(only: tuple[str, ...], expected: int) -> None:
    selection = select_candidates(made(), only)
    assert len(selection[TASK.id]) == expected
    part = Standing(made(), (), ENVIRONMENT.id, 3, selection[TASK.id])
    assert len(part.list_to_judge(TASK.id)) == expected


def test_a_name_that_nothing_has_is_refused() -> None:
    with pytest.raises(BundleError, match="its tasks are chain"):
        select_candidates(made(), ["chian"])
