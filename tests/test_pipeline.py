"""What a run takes from earlier ones, and what it says at its end."""

import pytest

from warpsmith.agents.base import Attempt
from warpsmith.facts import Facts
from warpsmith.pipeline import best_of, lasting
from warpsmith.pipeline.summary import Ground, Spent, summarize
from warpsmith.records import Admission, Budget, Candidate, Environment, Limit, Ratio, Unit
from warpsmith.search.loop import Search
from warpsmith.search.meter import Meter
from warpsmith.testing import chain_graph, chain_region, chain_task, scripted_result

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


GPU = Environment(
    cpu="Test CPU", cores=8, threads=8, memory_gb=64.0, simd="avx2", os="Linux", python="3.12", torch="2.9", compiler="g++",
    device="NVIDIA H100 80GB HBM3", gpu_driver="580.1",
)  # fmt: skip
LIMIT = Limit(
    seconds=1e-6, least_bytes=1, flops=1, bytes_per_second=1e12, flops_per_second=1e12, bound="memory"
)


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        (GPU, "NVIDIA H100 80GB HBM3"),
        (GPU.model_copy(update={"device": "Test CPU"}), "Test CPU"),
        (GPU.model_copy(update={"device": ""}), "Test CPU"),  # as records of older versions have it
    ],
)
def test_a_summary_names_what_it_was_measured_on(environment: Environment, named: str) -> None:
    facts = Facts(threads=8, node_us={}, total_us=1.0, limit_us=1.0)
    search = Search(chain_task(), "cuda", facts, LIMIT, None, None, Meter(Budget()), print)  # type: ignore[arg-type]
    ground = Ground(facts, LIMIT, (), Admission(admitted=True, mutants={}), environment)
    summary = summarize("r", search, ground, None, "no new idea left", Spent(), None)
    assert summary.hardware == named
    assert f'"hardware":"{named}"' in summary.model_dump_json()
