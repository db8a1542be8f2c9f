"""What a run takes from earlier ones, and what it says at its end."""

import pytest

from warpsmith.agents.base import Attempt
from warpsmith.pipeline import best_of, lasting
from warpsmith.records import Candidate, Ratio, Unit
from warpsmith.testing import chain_graph, chain_region, scripted_result

UNIT = Unit(region=chain_region(chain_graph(), 0, 0), language="c++", source="//")
CANDIDATE = Candidate(task_id="t", target="cpu", units=(UNIT,))


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (1.5, True),
        ("incorrect", True),
        ("build-failed", True),
        ("crashed", False),
        ("timeout", False),
        ("error", False),
    ],
)
def test_what_would_come_out_the_same_is_taken(outcome, expected: bool) -> None:
    assert lasting(scripted_result(CANDIDATE, outcome)) is expected


def test_a_timing_from_a_busy_machine_is_not_relied_on() -> None:
    result = scripted_result(CANDIDATE, 1.5)
    wide = Ratio(baseline="eager", median=1.5, low=0.4, high=3.0)
    busy = result.model_copy(update={"timing": result.timing.model_copy(update={"ratios": (wide,)})})
    assert not lasting(busy)


def test_the_summary_names_the_smallest_ratio_and_eager() -> None:
    result = scripted_result(CANDIDATE, 2.0)
    ratios = (*result.timing.ratios, Ratio(baseline="compile", median=1.2, low=1.1, high=1.3))
    timing = result.timing.model_copy(update={"ratios": ratios})
    best = best_of(Attempt(CANDIDATE, result.model_copy(update={"timing": timing})))
    assert (best.speedup.baseline, best.speedup_eager.median) == ("compile", 2.0)
