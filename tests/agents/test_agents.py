"""What each agent makes of what its brain says."""

import pytest

from warpsmith.agents.base import Attempt, Situation
from warpsmith.agents.compile import MAX_REPAIRS, CompileAgent
from warpsmith.agents.correctness import CorrectnessAgent
from warpsmith.agents.expert import brain
from warpsmith.agents.orchestrator import OrchestratorAgent
from warpsmith.agents.reasoning import ReasoningAgent
from warpsmith.agents.synthesis import SynthesisAgent
from warpsmith.facts import Facts
from warpsmith.records import Build, Candidate, Diagnostic, Limit, Lineage, Result, Tunable, Unit
from warpsmith.testing import FakeBrain, chain_graph, chain_region, chain_task, scripted_result

LIMIT = Limit(
    seconds=1e-6, least_bytes=1, flops=1, bytes_per_second=1e9, flops_per_second=1e9, bound="memory"
)


def situation(attempts=(), round=0) -> Situation:
    return Situation(chain_task(), "cpu", Facts(threads=2), LIMIT, tuple(attempts), round)


def attempt(speed: float | str, technique: str = "a", branch: str = "x", hypothesis=None) -> Attempt:
    graph = chain_graph()
    unit = Unit(
        region=chain_region(graph, 0, 0),
        language="c++",
        source=f"// {technique} {speed}",
        technique=technique,
    )
    candidate = Candidate(task_id="t", target="cpu", units=(unit,), lineage=Lineage(branch=branch))
    return Attempt(candidate, scripted_result(candidate, speed), hypothesis)


def test_reasoning_never_repeats_an_idea_and_spreads_over_regions() -> None:
    agent = ReasoningAgent(FakeBrain())
    first = agent.propose(situation(), 2)
    assert len({h.region.id for h in first}) == 2
    tried = [attempt(1.0, hypothesis=h) for h in first]
    second = agent.propose(situation(tried), 10)
    assert len(second) == 4
    assert not {h.id for h in first} & {h.id for h in second}


def test_synthesis_drops_units_for_another_region_and_duplicates() -> None:
    class Stray(FakeBrain):
        def write_units(self, graph, hypothesis, m, situation=None):
            good = super().write_units(graph, hypothesis, 1)[0]
            return [good.model_copy(update={"region": chain_region(graph, 0, 1)}), good, good]

    idea = FakeBrain().hypotheses(situation(), 1)[0]
    assert len(SynthesisAgent(Stray()).write(chain_graph(), idea, 5)) == 1


def failed_build(candidate: Candidate, message: str) -> Result:
    found = Diagnostic(line=3, kind="error", message=message)
    build = Build(unit_key=candidate.units[0].code_key, variant="main", ok=False, diagnostics=(found,))
    return scripted_result(candidate, "build-failed").model_copy(update={"builds": (build,)})


def test_compile_mends_the_failed_unit_within_the_bound() -> None:
    candidate = attempt(1.0).candidate
    agent = CompileAgent(FakeBrain())
    mended = agent.repair(candidate, failed_build(candidate, "expected ';'"), 0)
    assert mended is not None
    assert mended.lineage.parents == (candidate.id,)
    assert "expected ';'" in mended.lineage.reason
    assert agent.repair(candidate, failed_build(candidate, "expected ';'"), MAX_REPAIRS) is None


def test_the_expert_makes_a_build_that_ran_out_smaller_and_gives_up_on_the_rest() -> None:
    base = attempt(1.0).candidate.units[0]
    unit = base.model_copy(update={"tunables": (Tunable(name="UNROLL", domain=(1, 8), value=8),)})
    mended = brain.repair_build(unit, [Diagnostic(line=0, kind="error", message="compilation timed out")])
    assert mended is not None
    assert mended.values == {"UNROLL": 1}
    assert brain.repair_build(mended, [Diagnostic(line=0, kind="error", message="killed")]) is None
    assert (
        brain.repair_build(unit, [Diagnostic(line=1, kind="error", message="static assertion failed")])
        is None
    )


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("static float cache[1024];\n", "state"),
        ("thread_local int calls = 0;\n", "state"),
        ("static void unit() { auto t = __builtin_ia32_rdtsc(); }\n", "clock"),
        ('static void unit() { asm("nop"); }\n', "assembly"),
    ],
)
def test_the_review_objects_to_state_clocks_and_assembly(source: str, word: str) -> None:
    unit = attempt(1.0).candidate.units[0].model_copy(update={"source": source})
    assert any(word in objection for objection in brain.review(unit))


def test_the_review_lets_honest_code_pass() -> None:
    source = """
    // static float cache: a comment is no state
    static constexpr int ROWS = 4;
    static const float table[2] = {1, 2};
    static inline float twice(float x) { return 2 * x; }
    static void unit(const float* in0, float* out0, void* workspace, void* stream) { float s = 0; }
    """
    unit = attempt(1.0).candidate.units[0].model_copy(update={"source": source})
    assert brain.review(unit) == []


def test_correctness_names_the_unit_that_went_wrong() -> None:
    bad = attempt("incorrect")
    found = CorrectnessAgent(FakeBrain()).diagnose(chain_graph(), bad.candidate, bad.result)
    assert found is not None
    assert found.unit == bad.candidate.units[0]
    assert found.check.rule == "budget"
    fine = attempt(1.0)
    assert CorrectnessAgent(FakeBrain()).diagnose(chain_graph(), fine.candidate, fine.result) is None


def test_the_orchestrator_tunes_only_what_works_and_crosses_only_several_regions() -> None:
    boss = OrchestratorAgent(branches=3, variants=2, patience=2, near_limit=0.9)
    assert boss.rules(situation()).plans == 3
    later = boss.rules(situation([attempt("incorrect")], round=1))
    assert later.tunes == 0
    works = boss.rules(situation([attempt(1.5)], round=1))
    assert works.tunes > 0
    assert works.crossovers == 0
