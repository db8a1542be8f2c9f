"""A measured profile changes what is proposed next, and the evidence says why."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
from test_planner import graph_of

from warpsmith.agents.expert import brain
from warpsmith.facts import Facts
from warpsmith.records import Graph, Hypothesis, Profile, Ratio, RegionProfile, Result, Timing, Verdict

History = list[tuple[Hypothesis | None, Result]]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return graph_of(lambda x, y: torch.softmax(x * y, -1), torch.randn(512, 1024), torch.randn(512, 1024))


@pytest.fixture(scope="module")
def two() -> Graph:
    """Two regions that cannot be one: sums along different dimensions."""
    return graph_of(lambda x: torch.softmax(torch.softmax(x, 0), 1), torch.randn(512, 512))


def facts_for(graph: Graph) -> Facts:
    return Facts(
        threads=2, vector=16, bandwidth=2e10, node_us={n.name: 500.0 for n in graph.nodes}, total_us=1000.0
    )


def profile_of(hypothesis: Hypothesis, **changed: object) -> RegionProfile:
    seen = RegionProfile(
        region=hypothesis.region.id, seconds=400e-6, least_bytes=6 << 20, flops=1 << 20, limit_share=0.7,
        bottleneck="memory", family=hypothesis.family, technique=hypothesis.technique,
        values=hypothesis.values, threads=2, balance=0.97, register_bits=512, vector_bits=512,
        vector_share=0.9,
    )  # fmt: skip
    return seen.model_copy(update=changed)


def judged(profiles: Iterable[RegionProfile], speedup: float = 1.5, total_us: float = 600.0) -> Result:
    ratio = Ratio(baseline="eager", median=speedup, low=speedup, high=speedup)
    timing = Timing(median_us=total_us, low_us=1, high_us=1, cache="cold", samples=9, ratios=(ratio,))
    return Result(
        candidate_id="c", content_key="k", task_id="t", target="cpu", status="ok", timing=timing,
        verdict=Verdict(correct=True, checks=()), profile=Profile(regions=tuple(profiles)),
    )  # fmt: skip


@pytest.fixture(scope="module")
def start(graph: Graph) -> Hypothesis:
    """The plain passes over the widest region."""
    region = brain.plans(graph, facts_for(graph))[0][0]
    offered = brain.hypotheses(graph, facts_for(graph), [], 20)
    return next(h for h in offered if h.region == region and h.technique == "3-pass")


def later(graph: Graph, start: Hypothesis, **changed: object) -> list[Hypothesis]:
    """What is proposed for the same region after a unit of `start` was profiled so."""
    seen = profile_of(start, **changed)
    history: History = [(start.model_copy(update={"values": seen.values}), judged([seen]))]
    return [h for h in brain.hypotheses(graph, facts_for(graph), history, 60) if h.region == start.region]


def changed_first(graph: Graph, start: Hypothesis, **changed: object) -> tuple[dict[str, int], str]:
    """The values in which the first refinement differs from what was measured, and its evidence."""
    measured = profile_of(start, **changed).values
    best = next(h for h in later(graph, start, **changed) if h.technique == start.technique)
    return {n: v for n, v in best.values.items() if measured[n] != v}, " | ".join(best.evidence)


def test_uneven_threads_lead_to_smaller_tasks(graph: Graph, start: Hypothesis) -> None:
    even, _ = changed_first(graph, start)
    uneven, why = changed_first(graph, start, balance=0.5)
    assert "GRAIN" not in even
    assert uneven == {"GRAIN": 4096}
    assert "busy 50% of the time of the busiest; therefore GRAIN 16384→4096" in why


def test_narrow_vectors_lead_to_wider_ones(graph: Graph, start: Hypothesis) -> None:
    half = {**start.values, "VEC": 8}
    narrow, why = changed_first(graph, start, values=half, vector_bits=256, limit_share=0.5)
    assert narrow == {"VEC": 16}
    assert "256 bits at a time, where registers have 512; therefore VEC 8→16" in why


def test_far_from_the_least_bytes_leads_to_fewer_passes(graph: Graph, start: Hypothesis) -> None:
    (single,) = [
        h for h in later(graph, start, limit_share=0.3)
        if h.technique == "single-pass" and any("in its place" in line for line in h.evidence)
    ]  # fmt: skip
    assert any("its least bytes pass at" in line for line in single.evidence)
    assert not any("in its place" in line for h in later(graph, start) for line in h.evidence)


def test_a_region_near_its_limit_is_left_alone_and_that_is_said(two: Graph) -> None:
    first, second = brain.plans(two, facts_for(two))[0]
    ideas = brain.hypotheses(two, facts_for(two), [], 60)
    done = next(h for h in ideas if h.region == first)
    history: History = [(done, judged([profile_of(done, limit_share=0.95)]))]
    after = brain.hypotheses(two, facts_for(two), history, 60)
    assert {h.region.id for h in ideas} >= {first.id, second.id}
    assert second.id in {h.region.id for h in after}
    assert first.id not in {h.region.id for h in after}
    assert all(any(line.startswith(f"left alone: {done.technique}") for line in h.evidence) for h in after)
    unsteered = brain.hypotheses(two, facts_for(two), history, 60, steered=False)
    assert first.id in {h.region.id for h in unsteered}


def test_effort_goes_where_the_time_is_now(two: Graph) -> None:
    """Both regions take as long in the reference; in the fastest candidate one of them still does."""
    first, second = brain.plans(two, facts_for(two))[0]
    ideas = brain.hypotheses(two, facts_for(two), [], 60)
    begun = {r.id: next(h for h in ideas if h.region == r) for r in (first, second)}
    for slow, quick in ((first, second), (second, first)):
        profiles = [
            profile_of(begun[slow.id], seconds=500e-6, limit_share=0.3),
            profile_of(begun[quick.id], seconds=30e-6, limit_share=0.3),
        ]
        best = brain.hypotheses(two, facts_for(two), [(None, judged(profiles))], 1)[0]
        assert best.region == slow
        assert best.expected_gain > 1.5
        assert any("in the fastest candidate it takes 83% of 600 us" in line for line in best.evidence)


def test_what_was_judged_as_part_of_a_whole_is_not_proposed_again(graph: Graph, start: Hypothesis) -> None:
    history: History = [(None, judged([profile_of(start)]))]
    again = brain.hypotheses(graph, facts_for(graph), history, 60)
    mine = [(h.technique, h.values) for h in again if h.region == start.region]
    assert mine
    assert (start.technique, start.values) not in mine


def test_flags_follow_the_profile(graph: Graph, start: Hypothesis) -> None:
    unit = brain.write_units(graph, start, 1)[0]

    def flags(**changed: object) -> list[str]:
        return [f[-1] for f in brain.flag_variants(unit, profile_of(start, **changed))]

    assert flags(vector_bits=256)[1] == "-mprefer-vector-width=512"
    assert flags(vector_share=0.1)[1] == "-fvect-cost-model=unlimited"
    assert flags(limit_share=0.3)[1] == "-fprefetch-loop-arrays"
    assert "-mprefer-vector-width=512" not in flags()
    assert brain.flag_variants(unit) == [(*unit.flags, f) for f in (
        "-funroll-loops", "-fno-tree-vectorize", "-fprefetch-loop-arrays", "-mprefer-vector-width=512")]  # fmt: skip
