"""Why a run judged nothing: no model was asked, or what was wrong with the units that models wrote."""

from __future__ import annotations

from warpsmith.agents.llm.memory import Memory
from warpsmith.agents.llm.retrieval import NoRetrieval
from warpsmith.pipeline.summary import _nothing


def test_nobody_was_asked() -> None:
    memory = Memory(NoRetrieval(), "cpu")
    assert _nothing(memory, "no new idea left", 0) == "no model was asked for a kernel: no new idea left"
    assert "expert" in _nothing(None, "no new idea left", 0)


def test_a_units_problem_comes_before_another_answers() -> None:
    memory = Memory(NoRetrieval(), "cpu")
    memory.problems.extend(["unit: no fenced block", "round: cut off"])
    assert _nothing(memory, "time", 2) == "no answer of a model could be judged: unit: no fenced block"
    memory.problems.remove("unit: no fenced block")
    assert _nothing(memory, "time", 2).endswith("round: cut off")
