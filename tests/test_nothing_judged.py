"""Why a run judged nothing: no model was asked, or what was wrong with the units that models wrote."""

from __future__ import annotations

from warpsmith.agents.llm.memory import Memory
from warpsmith.agents.llm.retrieval import NoRetrieval
from warpsmith.pipeline.left import explain_nothing_offered
from warpsmith.pipeline.summary import _nothing
from warpsmith.testing import chain_graph


def test_nobody_was_asked() -> None:
    memory = Memory(NoRetrieval(), "cpu")
    assert _nothing(memory, "no new idea left", 0, "") == "no model was asked for a kernel: no new idea left"


def test_the_expert_names_the_operations_it_has_nothing_for() -> None:
    graph = chain_graph(("aten.sort.default", "aten.exp.default", "aten.view.default", "aten.sort.default"))
    us = dict(zip(graph.by_name, (60.0, 10.0, 0.0, 30.0), strict=True))
    line = "the expert has no kernel and no library alternative for "
    assert explain_nothing_offered(graph, us) == f"{line}sort (90% of the time), exp (10% of the time)"
    assert explain_nothing_offered(graph, {}) == f"{line}sort, exp"
    assert _nothing(None, "no new idea left", 0, line) == line


def test_a_search_that_was_cut_short_says_so() -> None:
    assert _nothing(None, "time is up", 0, "never said") == "nothing was judged: time is up"


def test_a_units_problem_comes_before_another_answers() -> None:
    memory = Memory(NoRetrieval(), "cpu")
    memory.problems.extend(["unit: no fenced block", "round: cut off"])
    assert _nothing(memory, "time", 2, "") == "no answer of a model could be judged: unit: no fenced block"
    memory.problems.remove("unit: no fenced block")
    assert _nothing(memory, "time", 2, "").endswith("round: cut off")
