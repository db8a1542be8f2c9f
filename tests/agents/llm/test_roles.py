"""Each role played by a model: what it makes of answers, good and bad, and what it remembers."""

import json
import threading
from dataclasses import replace

import pytest
from llm_fakes import GOOD, FakeChat, FakeTarget, block, ideas, make_brain, situation, whole

from warpsmith.agents.base import Attempt, Credits, RoundPlan
from warpsmith.agents.expert.brain import ExpertBrain
from warpsmith.agents.llm.brain import LlmBrain
from warpsmith.agents.llm.correctness import MISTRUST, objection
from warpsmith.agents.llm.memory import Memory, Sample, gain_of
from warpsmith.agents.llm.prompts import RUN_ENDS
from warpsmith.agents.llm.retrieval import NoRetrieval
from warpsmith.agents.llm.translation import pass_at, translation
from warpsmith.agents.orchestrator import OrchestratorAgent, bound_plan
from warpsmith.agents.synthesis import SynthesisAgent
from warpsmith.config import Config
from warpsmith.llm.chat import BudgetSpent
from warpsmith.pipeline.team import make_team
from warpsmith.records import Candidate, Diagnostic, Hypothesis, Lesson, Lineage, Tunable, Unit
from warpsmith.testing import chain_task, scripted_result

IDEA = Hypothesis(
    region=whole(), family="pointwise", technique="one pass", bottleneck="memory", expected_gain=1.5,
    evidence=("n0 takes 60 us",),
)  # fmt: skip
ERROR = [Diagnostic(line=5, kind="error", message="‘x’ was not declared in this scope")]


def unit(note: str = "") -> Unit:
    return Unit(region=whole(), language="c++", source=f"{GOOD}// {note}\n", technique="one pass")


def attempt(
    unit: Unit, outcome: float | str, hypothesis: Hypothesis | None = None, **lineage: object
) -> Attempt:
    candidate = Candidate(task_id="t", target="cpu", units=(unit,), lineage=Lineage(**lineage))
    return Attempt(candidate, scripted_result(candidate, outcome), hypothesis)


# ---------------------------------------------------------------- reasoning


def test_hypotheses_are_checked_one_by_one_and_bad_ones_counted() -> None:
    good = json.loads(ideas("a", "b"))
    bad = [
        {"region": 99, "technique": "no such region"}, {"technique": "no region"}, "words", 7,
        {"region": ["n0", "nope"], "technique": "unknown node"},
        {"region": 0, "technique": "x", "expected_gain": float("inf")},
    ]  # fmt: skip
    brain, _, memory = make_brain(lambda *_: json.dumps([*bad, *good]))
    found = brain.hypotheses(situation(), 6)
    assert [h.technique for h in found] == ["a", "b"]
    assert memory.dropped == len(bad)
    assert "6 of a list: expected_gain" in memory.problems[-1]


def test_a_region_may_be_named_by_its_nodes() -> None:
    brain, _, _ = make_brain(lambda *_: ideas("only exp", region=["n0"]))
    assert brain.hypotheses(situation(), 1)[0].region.nodes == ("n0",)


def test_what_was_tried_is_asked_for_again_and_then_given_up() -> None:
    brain, chat, memory = make_brain(lambda *_: ideas("one pass"))
    tried = situation((attempt(unit(), "incorrect", brain.hypotheses(situation(), 1)[0]),), round=1)
    assert brain.hypotheses(tried, 2) == []
    assert "tried on that region already" in chat.asked[-1].prompt
    memory.settle()
    assert "tried on that region already" in memory.problems[-1]


def test_with_the_expert_as_synthesizer_only_its_offers_count() -> None:
    answers = json.dumps(
        [{"region": 0, "family": "pointwise", "technique": "magic"},
         {"region": 0, "family": "pointwise", "technique": "fused", "expected_gain": 3.0, "evidence": ["said so"]}]
    )  # fmt: skip
    brain, chat, _ = make_brain(lambda *_: answers, only_offers=True)
    found = brain.hypotheses(situation(), 3)
    assert [(h.technique, h.expected_gain) for h in found] == [("fused", 3.0)]
    assert found[0].evidence[0] == "said so"
    assert "technique fused" in chat.asked[0].prompt


# ---------------------------------------------------------------- synthesis and repairs


def test_garbage_is_sent_back_once_and_then_given_up() -> None:
    replies = iter(["garbage", block(GOOD), "garbage", "garbage again"])
    brain, chat, memory = make_brain(lambda *_: next(replies))
    assert [u.source for u in brain.write_units(situation().graph, IDEA, 1, situation())] == [GOOD]
    assert brain.write_units(situation().graph, IDEA, 1, situation(round=1)) == []
    assert [e.turn for e in chat.asked] == [0, 1, 0, 1]
    assert "garbage" in chat.asked[1].prompt
    assert [(s.round, bool(s.unit), s.first) for s in memory.samples] == [(0, True, False), (1, False, False)]


def test_the_lineage_carries_the_model_and_each_cost_once() -> None:
    replies = iter(["garbage", block(GOOD)])
    brain, _, memory = make_brain(lambda *_: next(replies))
    written = brain.write_units(situation().graph, IDEA, 1, situation())[0]
    candidate = Candidate(task_id="t", target="cpu", units=(written,))
    signed = memory.credits.sign(candidate)
    assert (signed.lineage.model, signed.lineage.cost_usd) == ("fake", 0.02)
    assert memory.credits.sign(candidate) == candidate
    assert Credits().sign(candidate).lineage.model == "expert"


def test_a_repair_may_be_an_edit_and_keeps_the_name_of_the_technique() -> None:
    edit = "<<<<<<< SEARCH\nout0[i] = in0[i];\n=======\nout0[i] = -in0[i];\n>>>>>>> REPLACE"
    brain, chat, _ = make_brain(lambda *_: edit)
    mended = brain.repair_build(unit(), ERROR)
    assert mended is not None
    assert ("-in0[i]" in mended.source, mended.technique) == (True, "one pass")
    assert "line 5: error: ‘x’ was not declared" in chat.asked[0].prompt
    assert "static void unit(const in0_t*" in chat.asked[0].prompt


def test_a_build_that_rules_can_mend_costs_no_question() -> None:
    brain, chat, _ = make_brain(lambda *_: "")
    big = unit().model_copy(update={"tunables": (Tunable(name="UNROLL", domain=(1, 8), value=8),)})
    mended = brain.repair_build(big, [Diagnostic(line=0, kind="timeout", message="compilation timed out")])
    assert mended is not None
    assert mended.values == {"UNROLL": 1}
    assert chat.asked == []


# ---------------------------------------------------------------- review


def written(brain, memory: Memory, note: str) -> Unit:
    made = unit(note)
    memory.credits.add(made, "fake", 0.0)
    return made


def test_an_objection_needs_a_known_kind_and_a_quote_of_the_unit() -> None:
    quoted = {"kind": "state", "quote": "out0[i] = in0[i];", "why": "copies"}
    assert objection(quoted, unit()).startswith("state: copies")
    assert objection({**quoted, "quote": "static int calls"}, unit()) == ""
    assert objection({**quoted, "kind": "ugly"}, unit()) == ""
    assert objection("words", unit()) == ""


def suspicious(brain, memory: Memory, note: str) -> Unit:
    """A unit of the model's that casts, as honest ones may, too."""
    source = written(brain, memory, note).source.replace("= in0[i];", "= ((in0_t*)in0)[i];")
    unit_of_model = unit(note).model_copy(update={"source": source})
    memory.credits.add(unit_of_model, "fake", 0.0)
    return unit_of_model


def test_static_rules_come_first_and_the_experts_units_cost_nothing() -> None:
    brain, chat, memory = make_brain(lambda *_: "[]")
    assert brain.review(unit()) == []
    cheat = written(brain, memory, "").model_copy(update={"source": GOOD + "static int calls = 0;\n"})
    memory.credits.add(cheat, "fake", 0.0)
    assert "keeps state between calls" in brain.review(cheat)[0]
    assert chat.asked == []
    assert brain.review(written(brain, memory, "new")) == []
    assert chat.asked == []  # nothing suspicious in it either: no question
    assert brain.review(suspicious(brain, memory, "new")) == []
    assert len(chat.asked) == 1
    assert "casts the const of an input away" in chat.asked[0].prompt


def test_a_reviewer_that_lets_nothing_pass_is_not_asked_for_ever() -> None:
    refusal = json.dumps([{"kind": "shortcut", "quote": "out0[i] = ((in0_t*)in0)[i];", "why": "too fast"}])
    brain, chat, memory = make_brain(lambda *_: refusal)
    verdicts = [bool(brain.review(suspicious(brain, memory, f"v{i}"))) for i in range(MISTRUST + 2)]
    assert verdicts == [True] * MISTRUST + [False] * 2
    assert len(chat.asked) == MISTRUST


# ---------------------------------------------------------------- lessons


class Lessons:
    """A retrieval that learns, in memory, and may be switched off."""

    def __init__(self, on: bool = True) -> None:
        self.on, self.kept, self.outcomes = on, list[Lesson](), list[bool]()

    def passages(self, query: str, target: str, k: int, failure: bool = False) -> list[str]:
        return []

    def exemplars(self, region, target: str, k: int) -> list[Unit]:
        return []

    def warnings(self, target: str, k: int) -> list[Lesson]:
        return []

    def lessons(self, failure: str, target: str, k: int) -> list[Lesson]:
        return [x for x in self.kept if x.signature == failure][:k] if self.on else []

    def learn(self, failure: str, target: str, remedy: str, candidate: str) -> None:
        self.kept.append(Lesson(signature=failure, target=target, problem=failure, remedy=remedy))

    def note_outcome(self, lesson: Lesson, worked: bool) -> None:
        self.outcomes.append(worked)


def repaired(brain, memory: Memory, note: str) -> bool:
    """A unit that does not build is mended, and judged: correct when the mended source says so."""
    broken = attempt(unit(note), "build-failed")
    memory.observe(broken, 0.0)
    mended = brain.repair_build(broken.candidate.units[0], ERROR)
    child = attempt(
        mended,
        1.5 if "RIGHT" in mended.source else "incorrect",
        parents=(broken.candidate.id,),
        operator="repair",
    )
    memory.observe(child, 0.0)
    return child.speedup > 0


def only_when_told(role: str, system: str, prompt: str, turn: int) -> str:
    """A model that finds the remedy alone the first time only, and later needs to be told."""
    prompt = prompt.rpartition(RUN_ENDS)[2]
    right = "first" in prompt or "What ended this failure before" in prompt
    return block(f"{GOOD}// {'RIGHT' if right else 'no idea'} {len(prompt)}\n")


@pytest.mark.parametrize("on", [True, False])
def test_lessons_change_what_comes_out(on: bool) -> None:
    retrieval = Lessons(on)
    brain, chat, memory = make_brain(only_when_told, retrieval)
    assert repaired(brain, memory, "first")
    assert "RIGHT" in retrieval.kept[0].remedy
    assert repaired(brain, memory, "second") is on
    assert ("RIGHT" in chat.asked[1].prompt) is on
    assert retrieval.outcomes == ([True] if on else [])


def test_a_failed_repair_teaches_nothing() -> None:
    retrieval = Lessons()
    brain, _, memory = make_brain(lambda *_: block(GOOD + "// no\n"), retrieval)
    broken = attempt(unit("x"), "build-failed")
    memory.observe(broken, 0.0)
    mended = brain.repair_build(broken.candidate.units[0], ERROR)
    memory.observe(attempt(mended, "build-failed", parents=(broken.candidate.id,), operator="repair"), 0.0)
    assert retrieval.kept == []


class Warned(Lessons):
    """It also knows what went wrong in other runs."""

    def warnings(self, target: str, k: int) -> list[Lesson]:
        return [
            Lesson(signature="race", target=target, problem="incorrect: a race", remedy="+ one part each")
        ][:k]


@pytest.mark.parametrize(("retrieval", "told"), [(Warned(), True), (Lessons(), False)])
def test_who_writes_anew_is_warned_of_what_went_wrong_in_other_runs(retrieval: Lessons, told: bool) -> None:
    brain, chat, memory = make_brain(lambda *_: block(GOOD), retrieval)
    brain.write_units(situation().graph, IDEA, 1, situation())
    assert ("+ one part each" in chat.asked[0].prompt) is told
    repaired(brain, memory, "another failure")
    assert "+ one part each" not in chat.asked[-1].prompt  # a repair is told of its own failure only


def test_gain_is_nothing_for_what_is_wrong_and_most_for_a_new_best() -> None:
    worth = [gain_of(attempt(unit(), outcome), 1.2) for outcome in ("incorrect", 1.1, 1.3)]
    assert worth[0] == 0.0 < worth[1] < worth[2] == 1.0


# ---------------------------------------------------------------- orchestrator


def advised(answer: str) -> OrchestratorAgent:
    brain, _, _ = make_brain(lambda *_: answer)
    return OrchestratorAgent(branches=2, variants=1, patience=3, near_limit=0.9, brain=brain, seeds=False)


def test_advice_is_taken_within_bounds() -> None:
    working = situation((attempt(unit(), 1.2),), round=1)
    wild = advised('{"rewrites": 500, "variants": 900, "tunes": 999, "crossovers": 7, "flags": 99}')
    assert wild.advise(working) == RoundPlan(0, 4, 2, 8, 0, 2)
    assert advised('{"rewrites": 1, "variants": 1, "tunes": 3}').advise(working) == RoundPlan(
        0, 1, 1, 3, 0, 0
    )


@pytest.mark.parametrize(
    "answer", ["stop it", "[]", '{"rewrites": -1}', '{"rewrites": "many"}', '{"rewrites": 0}', ""]
)
def test_invalid_advice_leaves_the_rules(answer: str) -> None:
    working = situation((attempt(unit(), 1.2),), round=1)
    rules = OrchestratorAgent(branches=2, variants=1, patience=3, near_limit=0.9, seeds=False)
    assert advised(answer).advise(working) in (None, rules.rules(working))


def test_a_model_stops_a_run_from_the_third_round_on_and_is_asked_once_a_round() -> None:
    brain, chat, _ = make_brain(lambda *_: '{"rewrites": 1, "stop": "near the limit"}')
    agent = OrchestratorAgent(2, 1, 3, 0.9, brain=brain, seeds=False)
    stopped = []
    for number in range(3):
        now = situation((attempt(unit(), 1.2),), round=number)
        stopped.append(agent.stop(now))
        agent.advise(now)
    assert stopped == [None, None, "the orchestrator stopped: near the limit"]
    assert len(chat.asked) == 2


def test_bounds_never_leave_a_round_without_work() -> None:
    rules = RoundPlan(0, 2, 1, 4, 0, 0)
    assert bound_plan(RoundPlan(0, 0, 0, 0, 0, 5), rules, 2, 1) == rules


# ---------------------------------------------------------------- translation


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"), [(10, 0, 1, 0.0), (10, 3, 1, 0.3), (5, 1, 5, 1.0), (4, 2, 2, 5 / 6)]
)
def test_pass_at_k_is_the_unbiased_estimator(n: int, c: int, k: int, expected: float) -> None:
    assert pass_at(n, c, k) == pytest.approx(expected)


def test_translation_counts_first_answers_and_repairs_apart() -> None:
    right, broken, fixed = unit("right"), unit("broken"), unit("fixed")
    wrong = attempt(broken, "build-failed")
    judged = [
        wrong, attempt(fixed, 1.1, operator="repair", parents=(wrong.candidate.id,)), attempt(right, 1.4),
        attempt(unit("late"), 9.0),
    ]  # fmt: skip
    samples = [
        Sample(0, "r", right.code_key, True), Sample(0, "r", broken.code_key, True), Sample(0, "r", "", False),
        Sample(1, "r", "later", True),
    ]  # fmt: skip
    counted = translation(samples, judged)
    assert counted is not None
    assert (counted.attempted, counted.correct_first, counted.correct, counted.initial_speedup) == (
        3,
        1,
        2,
        1.1,
    )
    assert counted.pass_at == pytest.approx({1: 1 / 3, 2: 2 / 3, 3: 1.0}, abs=1e-5)
    assert translation([Sample(1, "r", "", False)], judged) is None


# ---------------------------------------------------------------- ensembles, and several questions at once


class Paid(FakeChat):
    """Keeps what its answers were worth."""

    def __init__(self, script) -> None:
        super().__init__(script)
        self.rewards: list[float] = []

    def reward(self, exchanges, gain: float) -> None:
        assert exchanges
        self.rewards.append(gain)


def test_an_ensemble_hears_what_each_answer_was_worth() -> None:
    replies = iter([block(GOOD), "garbage", "garbage"])
    chat, memory = Paid(lambda *_: next(replies)), Memory(NoRetrieval(), "cpu")
    brain = LlmBrain(chat, chain_task(), FakeTarget(), memory)
    good = brain.write_units(situation().graph, IDEA, 1, situation())[0]
    memory.observe(attempt(good, 1.5), 0.0)
    memory.observe(attempt(good, 1.6), 1.5)  # judged again, as a tuned variant's twin: it is paid once
    assert chat.rewards == [1.0]
    brain.write_units(situation().graph, IDEA, 1, situation(round=1))
    assert chat.rewards == [1.0]
    memory.settle()
    assert chat.rewards == [1.0, 0.0]


class Meeting:
    """Writes a unit once three are being written."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(3, timeout=20)

    def write_units(self, graph, hypothesis, m, situation=None):
        self.barrier.wait()
        if hypothesis.technique == "b":
            raise BudgetSpent("spent")
        return [unit(hypothesis.technique)]


def test_hypotheses_are_written_side_by_side_and_come_back_in_order() -> None:
    three = [IDEA.model_copy(update={"technique": t}) for t in "abc"]
    written = SynthesisAgent(Meeting(), workers=3).write_all(situation(), three, 1)
    assert [h.technique for h, _ in written] == ["a", "c"]


# ---------------------------------------------------------------- teams


def team(tmp_path, roles: str, **settings: object):
    chats = {role: FakeChat(lambda *_: "") for role in roles.split()}
    config = Config(archive=tmp_path / "a.db", cache=tmp_path, **settings)
    return make_team(
        config, chats, chain_task(), FakeTarget(), Memory(NoRetrieval(), "cpu") if chats else None
    )


def test_each_role_has_its_own_brain(tmp_path) -> None:
    mixed = team(tmp_path, "reasoning")
    assert isinstance(mixed.reasoning.brain, LlmBrain)
    assert mixed.reasoning.brain._reasoning.only_offers
    assert isinstance(mixed.synthesis.brain, ExpertBrain)
    assert (mixed.orchestrator.brain, mixed.orchestrator.seeds, mixed.synthesis.workers) == (None, False, 1)
    writing = team(tmp_path, "synthesis compile orchestrator", model_concurrency=7)
    assert isinstance(writing.reasoning.brain, ExpertBrain)
    assert isinstance(writing.compile.brain, LlmBrain)
    assert isinstance(writing.orchestrator.brain, LlmBrain)
    assert (writing.orchestrator.seeds, writing.synthesis.workers) == (False, 7)
    assert team(tmp_path, "").orchestrator.seeds


class Gpu(FakeTarget):
    name = "cuda"
    language = "cuda"
    arch = "sm_90a"


def test_on_a_gpu_the_model_is_told_what_the_expert_offers_there() -> None:
    here = situation()
    there = replace(here, target="cuda", facts=replace(here.facts, target="cuda"))
    chat = FakeChat(lambda *_: ideas("warp per row"))
    LlmBrain(chat, chain_task(), Gpu(), Memory(NoRetrieval(), "cuda")).hypotheses(there, 1)
    assert "family pointwise, technique fused" in chat.asked[0].prompt


def test_on_a_gpu_the_model_is_told_the_architecture_and_none_of_the_cpus_techniques() -> None:
    chat = FakeChat(lambda *_: ideas("warp per row"))
    brain = LlmBrain(chat, chain_task(), Gpu(), Memory(NoRetrieval(), "cuda"))
    found = brain.hypotheses(situation(), 1)
    assert [h.technique for h in found] == ["warp per row"]
    assert "architecture sm_90a" in chat.asked[0].prompt
    assert "227 KiB of shared memory" in chat.asked[0].prompt
    assert "built-in techniques" not in chat.asked[0].prompt
    chat.script = lambda *_: block(GOOD)
    assert brain.write_units(situation().graph, found[0], 1, situation())[0].language == "cuda"
