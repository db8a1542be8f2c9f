"""What the questions of one run have in common: measured by the instrument of `benchmarks/prompt_measures.py`."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

from llm_fakes import FACTS, GOOD, block, ideas, make_brain, situation
from prompt_measures import Measures, contradicts, count_repeated, find_shared, measure

from warpsmith.agents.base import Attempt, RoundPlan
from warpsmith.agents.llm.answers import read_note
from warpsmith.agents.llm.prompts import RUN_ENDS, render_system
from warpsmith.archive.store import Archive
from warpsmith.knowledge.archive_retrieval import ArchiveRetrieval, is_slip
from warpsmith.records import Candidate, Diagnostic, Exchange, Lineage, TaskSource, Unit
from warpsmith.testing import chain_task, scripted_result

MODULE = "class Model(torch.nn.Module):\n    def forward(self, x):\n        return -torch.exp(x)\n"
TASK = chain_task().model_copy(update={"source": TaskSource(kind="kernelbench", path="t.py", text=MODULE)})


def judged(unit: Unit, outcome: float | str, round: int) -> Attempt:
    candidate = Candidate(
        task_id=TASK.id, target="cpu", units=(unit,), lineage=Lineage(operator="rewrite", round=round)
    )
    return Attempt(candidate, scripted_result(candidate, outcome))


def ask_everything(tmp_path: Path, **switches: bool) -> list[Exchange]:
    """The questions of a run of two rounds: each role, in the order of a search."""
    written = iter(range(100))
    answers = {"reasoning": ideas("one pass", "by rows"), "orchestrator": '{"rewrites": 1}'}
    brain, chat, memory = make_brain(
        lambda role, *_: answers.get(role) or "Rationale: fewer passes\n" + block(GOOD + f"// {next(written)}\n"),
        ArchiveRetrieval(Archive(tmp_path / "a.db"), **switches), TASK,
    )  # fmt: skip
    memory.facts = FACTS
    attempts: list[Attempt] = []
    for round in range(2):
        for idea in brain.hypotheses(situation(tuple(attempts), round, TASK), 2):
            for unit in brain.write_units(TASK.graph, idea, 1, situation(tuple(attempts), round, TASK)):
                attempts.append(judged(unit, 1.5 + 0.1 * len(attempts), round))
        now = situation(tuple(attempts), round, TASK)
        unit = attempts[-1].candidate.units[0]
        brain.edit_unit(now, attempts[-1], unit, 1)
        brain.combine_units(now, [(a, a.candidate.units[0]) for a in attempts[-2:]], 1)
        brain.repair_build(
            unit, [Diagnostic(line=5, kind="error", message="no matching function for call to ‘load’")]
        )
        brain.mend(unit, judged(unit, "incorrect", round).result)
        brain.advise(now, RoundPlan(0, 3, 2, 6, 0, 1))
    return chat.asked


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measures:
    return measure(ask_everything(tmp_path_factory.mktemp("asked")))


def test_most_of_a_question_is_what_earlier_ones_began_with(measured: Measures) -> None:
    assert measured.calls == 16
    assert measured.common >= 0.70  # letter by letter, over all roles
    assert measured.shared >= measured.common


def test_knowledge_is_a_part_and_nothing_is_said_twice(measured: Measures) -> None:
    assert 0.05 < measured.knowledge < 0.45
    assert measured.repeated < 0.10
    assert measured.contradictions == 0


def test_without_knowledge_and_examples_the_rest_stays(tmp_path: Path) -> None:
    plain = measure(ask_everything(tmp_path, knowledge=False))
    assert plain.knowledge == 0.0
    assert plain.common >= 0.60


def test_the_instrument_sees_what_it_is_for() -> None:
    assert find_shared("abcd", ["abX", "abcX"]) == 3
    line = "a line that is long enough to count here"
    assert count_repeated(f"{line}\n{line}\nshort\nshort") == len(line)
    assert contradicts("the reference takes 44,591 us with x\n- n0 (aten.exp): 3,259 us")
    assert contradicts("the reference takes 10 us\nthe reference takes 11 us")
    assert not contradicts("the reference takes 100 us with x\n- n0 (aten.exp): 95 us")


def test_a_question_says_the_time_to_reach_and_what_is_left(tmp_path: Path) -> None:
    reasoning = [e for e in ask_everything(tmp_path) if e.role == "reasoning"]
    assert (
        "Target: at most 90 us a call, at least 10% less than the 100 us of the best baseline."
        in reasoning[0].prompt
    )
    assert "of the best candidate" in reasoning[1].prompt
    assert RUN_ENDS in reasoning[0].prompt


def test_of_the_other_target_nothing_is_said() -> None:
    cpu, cuda = render_system("cpu"), render_system("cuda")
    assert "nvcc" not in cpu
    assert "cudaMemsetAsync" not in cpu
    assert "g++" not in cuda
    assert "immintrin" not in cuda


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        ("Rationale: two passes read it twice\n```cpp\nx\n```", "two passes read it twice"),
        ("**Reflection:** a tail was left\n<<<<<<< SEARCH", "a tail was left"),
        ("```cpp\n// Rationale: in code\n```", ""),
        ("nothing", ""),
    ],
)
def test_what_an_author_says_of_its_unit_is_read_outside_of_code(answer: str, note: str) -> None:
    assert read_note(answer) == note


def test_a_rationale_is_kept_and_told(tmp_path: Path) -> None:
    brain, chat, memory = make_brain(
        lambda role, *_: ideas("a") if role == "reasoning" else "Rationale: fewer passes\n" + block(GOOD)
    )
    idea = brain.hypotheses(situation(), 1)[0]
    unit = brain.write_units(TASK.graph, idea, 1, situation())[0]
    signed = memory.credits.sign(
        Candidate(task_id="t", target="cpu", units=(unit,), lineage=Lineage(reason="slow"))
    )
    assert signed.lineage.reason == "slow; its author: fewer passes"
    brain.hypotheses(situation((Attempt(signed, scripted_result(signed, 1.2)),), 1), 1)
    assert "(its author: fewer passes)" in chat.asked[-1].prompt


@pytest.mark.parametrize(
    ("failure", "slip"),
    [
        ("build-failed: error: expected ‘;’ before ‘}’ token", True),
        ("build-failed: error: ‘flot’ was not declared in this scope; did you mean ‘float’?", True),
        (
            "build-failed: error: inlining failed in call to ‘always_inline’: target specific option mismatch",
            False,
        ),
        ("incorrect: budget on large inputs", False),
    ],
)
def test_typing_errors_teach_no_lesson(failure: str, slip: bool, tmp_path: Path) -> None:
    assert is_slip(failure) is slip
    archive = Archive(tmp_path / "a.db")
    ArchiveRetrieval(archive).learn(failure, "cpu", "-old\n+new", "c")
    assert bool(archive.all_lessons("cpu")) is not slip
