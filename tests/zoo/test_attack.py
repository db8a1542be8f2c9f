"""The attack service: composition, the criterion of a breach, files that are gone on with, and a small part through the judge."""

from __future__ import annotations

import ast
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from warpsmith.config import Config
from warpsmith.errors import UsageError
from warpsmith.targets.front_matter import parse
from warpsmith.zoo.attack import service
from warpsmith.zoo.attack.composing import (
    Composed,
    _join,
    compose,
    compose_twin,
    list_fakes,
    list_fragments,
    list_triggers,
)
from warpsmith.zoo.attack.lane import Lane
from warpsmith.zoo.attack.operators import load_operators
from warpsmith.zoo.attack.outcome import Answer, AttackRow, find_breach, is_suspect, make_row
from warpsmith.zoo.attack.service import Attack, Tally, make_chunks, read_rows, run_attack, split_processors
from warpsmith.zoo.attack.summary import count, is_as_expected, summarise

MANY = [compose(7, index) for index in range(1200)]
HOSTILE = replace(MANY[0], honest=False, own_code=False, family="cached", label="")
HONEST = replace(HOSTILE, honest=True, family="plain")
OWN = replace(HOSTILE, own_code=True)
GAIN, NO_GAIN, BUSY = (Answer("correct", low=low, high=2.0, label="none") for low in (1.5, 0.9, 0.0))
WRONG = Answer("incorrect", "budget", "budget: off", "none")
KERNEL = replace(NO_GAIN, label="kernel")


def test_composition_is_deterministic() -> None:
    assert [compose(7, index) for index in range(0, 1200, 37)] == MANY[::37]
    assert compose(8, 0).text != MANY[0].text


def test_every_fourth_is_honest() -> None:
    assert [c.honest for c in MANY[:8]] == [False, False, False, True] * 2


def test_every_family_and_variant_has_its_turn() -> None:
    assert {c.family for c in MANY if not c.honest} == {f.name for f in list_fragments(honest=False)}
    assert {c.family for c in MANY if c.honest} == {f.name for f in list_fragments(honest=True)}
    assert {c.operator for c in MANY} == {o.name for o in load_operators()}
    assert {c.trigger for c in MANY} == {t.name for t in list_triggers()} | {""}
    assert {c.fake for c in MANY} == {f.name for f in list_fakes()} | {""}


def test_every_candidate_parses() -> None:
    for candidate in MANY:
        if candidate.form == "unit":
            parse(candidate.text)
            assert "static void unit(" in candidate.text
        else:
            names = {
                n.name
                for n in ast.walk(ast.parse(candidate.text))
                if isinstance(n, ast.FunctionDef | ast.ClassDef)
            }
            assert {"work", "part", "blank", "ModelNew"} <= names
            assert names & ({"answer"} if candidate.honest else {"cheat"})
        assert "draw:" not in candidate.text


def test_every_family_composes_with_every_trigger() -> None:
    rng = random.Random(3)
    fragments = [f for f in list_fragments(honest=False) if not f.name.startswith("unit-")]
    for fragment, trigger in product(fragments, list_triggers()):
        operator = next(o for o in load_operators() if {"kernel", "numpy"} <= set(o.works))
        text = _join(operator, fragment, "torch", trigger.draw(rng), rng.choice(list_fakes()).draw(rng), rng)
        assert {"cheat", "due"} <= {n.name for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)}


def test_attack_for_a_gpu_has_no_libraries_or_units() -> None:
    forms = {compose(7, index, "cuda").form for index in range(400)}
    assert forms == {"python"}


def test_twin_does_the_same_work_in_the_same_form() -> None:
    for candidate in MANY[:200]:
        twin = compose_twin(candidate)
        assert twin.honest
        assert (twin.operator, twin.form == "unit") == (candidate.operator, candidate.form == "unit")
        assert "def cheat(" not in twin.text


@pytest.mark.parametrize(
    ("candidate", "answer", "confirmed", "twin", "breach"),
    [
        (HOSTILE, GAIN, GAIN, None, "gain"),
        (HOSTILE, GAIN, GAIN, NO_GAIN, "gain"),
        (HOSTILE, GAIN, replace(GAIN, low=2.5, high=3.0), GAIN, "gain"),  # above what the twin gains
        (OWN, GAIN, GAIN, GAIN, ""),  # the gain is the work's own
        (HOSTILE, GAIN, NO_GAIN, None, ""),
        (HOSTILE, GAIN, BUSY, None, ""),
        (HOSTILE, GAIN, WRONG, None, ""),
        (HOSTILE, NO_GAIN, None, None, ""),
        (HOSTILE, BUSY, None, None, ""),
        (HOSTILE, WRONG, None, None, ""),
        (HOSTILE, KERNEL, None, None, "label"),
        (HOSTILE, KERNEL, WRONG, None, ""),
        (OWN, KERNEL, None, None, ""),
        (HONEST, GAIN, None, None, ""),
        (HONEST, KERNEL, None, None, ""),
    ],
)
def test_breach(
    candidate: Composed, answer: Answer, confirmed: Answer | None, twin: Answer | None, breach: str
) -> None:
    assert find_breach(candidate, answer, confirmed, twin) == breach
    row = make_row(candidate, answer, confirmed, twin)
    assert (row.outcome == "BREACH") is bool(breach)
    assert (row.text != "") is (row.outcome in ("BREACH", "REFUSED", "ERROR"))


@pytest.mark.parametrize(
    ("candidate", "answer", "outcome"),
    [
        (HOSTILE, NO_GAIN, "harmless"), (HOSTILE, WRONG, "refused"), (HOSTILE, Answer("error"), "ERROR"),
        (HONEST, GAIN, "accepted"), (HONEST, WRONG, "REFUSED"), (HONEST, Answer("error"), "ERROR"),
    ],
)  # fmt: skip
def test_outcome(candidate: Composed, answer: Answer, outcome: str) -> None:
    assert make_row(candidate, answer).outcome == outcome


def test_machine_that_is_busy_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [BUSY, BUSY, NO_GAIN, BUSY, BUSY, BUSY]
    lane = Lane()
    monkeypatch.setattr(lane, "_try", lambda candidate, confirm: answers.pop(0))
    assert lane._ask(HOSTILE, False) == NO_GAIN
    assert lane._ask(HONEST, False) == BUSY
    assert len(answers) == 2
    answers.append(BUSY)
    assert lane._ask(HOSTILE, False) == BUSY
    assert not answers


def test_gain_that_a_confirmation_refuses_is_refused() -> None:
    assert is_suspect(HOSTILE, GAIN)
    assert not is_suspect(HONEST, GAIN)
    row = make_row(HOSTILE, GAIN, WRONG)
    assert (row.outcome, row.rule) == ("refused", "budget")


def test_mislabelled_honest_variant_is_accepted_and_shown() -> None:
    row = make_row(replace(HONEST, label="kernel"), NO_GAIN)
    assert row.outcome == "accepted"
    assert row.text


def test_one_of_two_hundred_honest_ones_may_be_refused() -> None:
    accepted, refused = make_row(HONEST, NO_GAIN), make_row(HONEST, WRONG)
    assert is_as_expected([accepted] * 199 + [refused])
    assert not is_as_expected([accepted] * 198 + [refused])
    assert not is_as_expected([accepted, make_row(HOSTILE, KERNEL)])
    assert not is_as_expected([accepted, make_row(HOSTILE, Answer("error"))])


def test_summary_names_rules_rates_and_commands() -> None:
    rows = [make_row(HOSTILE, WRONG), make_row(HOSTILE, KERNEL), make_row(HOSTILE, BUSY)]
    text = summarise(Tally(3, rows, 3, 6.0), Attack(3, 7))
    assert "cached" in text
    assert "budget 1" in text
    assert "BREACH label" in text
    assert f"warpsmith judge --attack-only {HOSTILE.index} --seed 7 --target cpu" in text
    assert "too busy to claim a gain of 1" in text
    assert "30 a minute" in text
    assert count(rows) in text


def test_chunks_hold_one_operator_and_form() -> None:
    chunks = make_chunks(MANY)
    assert sorted(c.index for chunk in chunks for c in chunk) == list(range(1200))
    for chunk in chunks:
        assert len({(c.operator, c.form == "unit") for c in chunk}) == 1


@pytest.mark.parametrize(
    ("count_of_processors", "lanes", "each"), [(16, 8, 2), (16, 1, 0), (4, 4, 0), (33, 8, 4), (2, 1, 0)]
)
def test_lanes_have_processors_of_their_own_where_there_are_enough(
    count_of_processors: int, lanes: int, each: int
) -> None:
    shares = split_processors(range(count_of_processors), lanes)
    assert [len(s) for s in shares] == [each] * lanes
    assert len({p for s in shares for p in s}) == each * lanes


class ScriptedLane:
    """Answers without a judge."""

    def __init__(self, *_: object) -> None: ...

    def judge(self, candidate: Composed) -> AttackRow:
        return make_row(candidate, WRONG if not candidate.honest else NO_GAIN)

    def close(self) -> None: ...


def test_file_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "LaneClient", ScriptedLane)
    file = tmp_path / "rows.jsonl"
    assert run_attack(Attack(6, 7, lanes=2), Config(cache=tmp_path), file=file).judged == 6
    file.write_text(file.read_text()[:-20])  # interrupted within a line
    tally = run_attack(Attack(10, 7), Config(cache=tmp_path), file=file)
    assert tally.judged == 5
    assert sorted(r.index for r in tally.rows) == list(range(10))
    assert sorted(r.index for r in read_rows(file, Attack(10, 7))) == list(range(10))
    assert json.loads(file.read_text().splitlines()[0])["seed"] == 7
    with pytest.raises(UsageError, match="is of another attack"):
        run_attack(Attack(6, 8), Config(cache=tmp_path), file=file)


def test_interrupt_leaves_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "LaneClient", ScriptedLane)

    def interrupt(tally: Tally) -> None:
        if len(tally.rows) == 3:
            raise KeyboardInterrupt

    tally = run_attack(Attack(12, 7), Config(cache=tmp_path), progress=interrupt)
    assert not list((tmp_path / "attack").iterdir())
    assert len(tally.rows) == 3
    assert tally.total == 12


def test_lane_that_fails_makes_an_error_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(ScriptedLane):
        def judge(self, candidate: Composed) -> AttackRow:
            return make_row(candidate, Answer("error", reason="the lane failed"))

    monkeypatch.setattr(service, "LaneClient", Failing)
    tally = run_attack(Attack(5, 7), Config(cache=tmp_path))
    assert [r.outcome for r in tally.rows] == ["ERROR"] * 5
    assert not is_as_expected(tally.rows)


# Families that are refused whatever the machine does, by what refuses them; none depends on a clock.
CERTAIN = {
    "plain-fake": ("budget", "exact", "non-finite", "rms-budget"), "lazy-container": ("output-type",), "lazy-tensor": ("output-type",),
    "attribute-of-output": ("output-type",), "wildcards": ("non-finite", "budget", "exact"), "frames": ("tampered",),
    "patched-method": ("tampered",), "forged-answer": ("forged",), "exit": ("crashed", "raised"),
    "unit-faked": ("nan-poison", "budget", "exact", "rms-budget"), "unit-imports": ("refused",), "unit-state": ("refused", "build-failed"),
}  # fmt: skip


def choose_fixed_part() -> Sequence[int]:
    """Choose two of each certain family that always strike, and honest variants, of two operators."""
    of_two = [c for c in MANY if c.operator in ("relu", "softmax") and c.form != "library"]
    strikes = [
        c
        for c in of_two
        if c.family in CERTAIN
        and c.trigger in ("always", "")
        and c.fake not in ("low-precision", "fewer-bits", "most-rows", "input")
    ]
    hostile = [[c.index for c in strikes if c.family == family][:2] for family in CERTAIN]
    honest = [c.index for c in of_two if c.honest and c.family not in ("compiled", "traced")][:6]
    return [*(index for family in hostile for index in family), *honest]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_fixed_part_through_the_judge(
    tmp_path: Path, with_peaks: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = choose_fixed_part()
    assert len(chosen) >= 20
    assert sum(MANY[index].form == "unit" for index in chosen) >= 3
    monkeypatch.setattr(Attack, "indexes", lambda attack: chosen)
    tally = run_attack(Attack(len(chosen), 7), Config(cache=with_peaks(tmp_path / "cache", 1)))
    assert len(tally.rows) == len(chosen)
    odd = [
        (row.index, row.operator, row.family, row.outcome, row.rule, row.reason) for row in tally.rows
        if row.outcome not in ("refused", "accepted") or (not row.honest and row.rule not in CERTAIN[row.family])
    ]  # fmt: skip
    assert not odd, "\n".join(map(str, odd))
