"""Hypotheses follow what was measured; units are variants of one source; repairs lead somewhere safer."""

from __future__ import annotations

import pytest
import torch
from test_planner import graph_of

from warpsmith.agents.expert import brain
from warpsmith.agents.expert.review import review
from warpsmith.facts import Facts
from warpsmith.records import Diagnostic, Graph, Hypothesis, Ratio, Result, Timing, Verdict
from warpsmith.targets.front_matter import parse


@pytest.fixture(scope="module")
def graph() -> Graph:
    return graph_of(lambda x, y: torch.softmax(x * y, -1), torch.randn(512, 1024), torch.randn(512, 1024))


def facts_for(graph: Graph) -> Facts:
    return Facts(threads=2, node_us={n.name: 500.0 for n in graph.nodes}, total_us=1000.0, limit_us=300.0)


def judged(speedup: float | None) -> Result:
    if speedup is None:
        return Result(
            candidate_id="c", content_key="k", task_id="t", target="cpu", status="incorrect", reason="wrong"
        )
    ratio = Ratio(baseline="eager", median=speedup, low=speedup, high=speedup)
    timing = Timing(median_us=1, low_us=1, high_us=1, cache="cold", samples=9, ratios=(ratio,))
    return Result(
        candidate_id="c", content_key="k", task_id="t", target="cpu", status="ok",
        verdict=Verdict(correct=True, checks=()),
        timing=timing,
    )  # fmt: skip


def idea(h: Hypothesis) -> tuple[object, ...]:
    return h.region.id, h.family, h.technique, tuple(sorted(h.values.items()))


def test_evidence_quotes_what_was_measured(graph: Graph) -> None:
    first = brain.hypotheses(graph, facts_for(graph), [], 3)[0]
    text = " ".join(first.evidence)
    assert "1000 us" in text
    assert "100% of the reference" in text
    assert "6.29 MB" in text
    assert first.expected_gain > 1


def test_one_node_is_told_of_in_the_singular(graph: Graph) -> None:
    alone = graph_of(torch.sigmoid, torch.randn(512, 1024))
    text = " ".join(brain.hypotheses(alone, facts_for(alone), [], 1)[0].evidence)
    assert "1 node must move" in text
    assert "ATen takes 500 us for it, " in text
    assert "1 operation in one pass" in text
    assert "slowest" not in text
    several = " ".join(brain.hypotheses(graph, facts_for(graph), [], 1)[0].evidence)
    assert "2 nodes must move" in several
    assert "slowest node: " in several


def test_nothing_is_proposed_twice(graph: Graph) -> None:
    history: list[tuple[Hypothesis | None, Result]] = []
    seen: set[tuple[object, ...]] = set()
    for _ in range(4):
        fresh = brain.hypotheses(graph, facts_for(graph), history, 3)
        assert fresh
        assert not seen & {idea(h) for h in fresh}
        seen |= {idea(h) for h in fresh}
        history += [(h, judged(1.2)) for h in fresh]


def test_a_technique_that_failed_is_not_offered_again_and_one_that_won_is_refined(graph: Graph) -> None:
    facts = facts_for(graph)
    region = brain.plans(graph, facts)[0][0]
    first = [h for h in brain.hypotheses(graph, facts, [], 9) if h.region == region]
    bad, good = first[0], first[1]
    later = brain.hypotheses(graph, facts, [(bad, judged(None)), (good, judged(3.0))], 40)
    mine = [h for h in later if h.region == region]
    assert bad.technique not in {h.technique for h in mine}
    assert good.technique in {h.technique for h in mine}
    assert any("measured at 3.00x" in line for h in mine for line in h.evidence)


def test_units_are_different_variants_of_one_source(graph: Graph) -> None:
    hypothesis = brain.hypotheses(graph, facts_for(graph), [], 1)[0]
    units = brain.write_units(graph, hypothesis, 4)
    assert len({u.code_key for u in units}) == 4
    assert len({u.source for u in units}) == 1
    assert units[0].values == hypothesis.values
    matter = parse(units[0].source)
    assert matter.technique == units[0].technique
    assert {t.name for t in matter.tunables} == set(units[0].values)
    assert all(review(u) == [] for u in units)


def test_sources_name_no_size(graph: Graph) -> None:
    unit = brain.write_units(graph, brain.hypotheses(graph, facts_for(graph), [], 1)[0], 1)[0]
    code = unit.source.split('#include "task.h"', 1)[1]
    assert "1024" not in code
    assert "512" not in code.replace("ps512", "")


def test_wrong_bytes_lead_to_the_plainest_technique(graph: Graph) -> None:
    region = brain.plans(graph, facts_for(graph))[0][0]
    offered = [h for h in brain.hypotheses(graph, facts_for(graph), [], 20) if h.region == region]
    fancy = next(h for h in offered if h.technique in ("row-buffered", "single-pass"))
    unit = brain.write_units(graph, fancy, 1)[0]
    safer = brain.repair_wrong(graph, unit, "budget", "heavy-tailed")
    assert safer is not None
    assert safer.technique not in ("row-buffered", "single-pass")
    assert brain.repair_wrong(graph, brain.write_units(graph, safer, 1)[0], "budget", "dense") is None


def test_only_builds_that_ran_out_of_something_are_mended(graph: Graph) -> None:
    unit = brain.write_units(graph, brain.hypotheses(graph, facts_for(graph), [], 1)[0], 1)[0]
    mended = brain.repair_build(
        unit, [Diagnostic(line=0, kind="error", message="compilation timed out after 60 s")]
    )
    assert mended is not None
    assert mended.values["UNROLL"] == 1
    assert brain.repair_build(unit, [Diagnostic(line=3, kind="error", message="expected ';'")]) is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("static int calls = 0;", "state"),
        ("static float cache[4];", "state"),
        ("if ((uintptr_t)in0 == last) return;", "address"),
    ],
)
def test_review_objects_to_cheats(graph: Graph, line: str, why: str) -> None:
    unit = brain.write_units(graph, brain.hypotheses(graph, facts_for(graph), [], 1)[0], 1)[0]
    bad = unit.model_copy(
        update={"source": unit.source.replace("static void unit", f"{line}\nstatic void unit")}
    )
    assert any(why in objection for objection in review(bad))


def test_nothing_to_propose_for_a_graph_of_library_calls() -> None:
    bare = graph_of(lambda x: torch.sort(x, 1).values, torch.randn(8, 8))
    assert brain.hypotheses(bare, Facts(threads=2), [], 3) == []
