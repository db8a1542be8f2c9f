"""The synthesis role played by a model on judged units: local edits, and two parents joined."""

import pytest
from llm_fakes import GOOD, block, make_brain, situation, whole
from test_roles import advised, attempt, unit

LOOP = "out0[i] = in0[i];"


def edit_of(old: str, new: str) -> str:
    return f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE"


def test_an_edit_is_applied_to_the_parent_and_credited() -> None:
    brain, _, memory = make_brain(lambda *_: edit_of(LOOP, "out0[i] = +in0[i];"))
    parent = attempt(unit("parent"), 1.2)
    old = parent.candidate.units[0]
    ((new, why),) = brain.edit_unit(situation((parent,), round=1), parent, old, 1)
    assert new.source == old.source.replace(LOOP, "out0[i] = +in0[i];")
    assert "+in0[i]" in why
    assert (new.region, new.technique) == (old.region, old.technique)
    assert memory.credits.models[new.code_key] == "fake"


def test_a_second_edit_is_told_of_the_first() -> None:
    answers = iter([edit_of(LOOP, "out0[i] = +in0[i];"), edit_of(LOOP, "out0[i] = 1 * in0[i];")])
    brain, chat, _ = make_brain(lambda *_: next(answers))
    parent = attempt(unit("parent"), 1.2)
    made = brain.edit_unit(situation((parent,), round=1), parent, parent.candidate.units[0], 2)
    assert len({u.code_key for u, _ in made}) == 2
    assert "+in0[i]" not in chat.asked[0].prompt
    assert "+in0[i]" in chat.asked[1].prompt


@pytest.mark.parametrize("answer", ["no idea", edit_of("not there", "x"), edit_of(LOOP, LOOP)])
def test_an_edit_that_cannot_be_used_is_asked_for_once_more_and_dropped(answer: str) -> None:
    brain, chat, memory = make_brain(lambda *_: answer)
    parent = attempt(unit("parent"), 1.2)
    assert brain.edit_unit(situation((parent,), round=1), parent, parent.candidate.units[0], 1) == []
    assert [e.turn for e in chat.asked] == [0, 1]
    memory.settle()
    assert memory.problems[-1].startswith("variation: ")


def test_two_parents_are_told_with_their_standing_the_faster_first() -> None:
    brain, chat, _ = make_brain(lambda *_: block(GOOD.replace("i++", "++i")))
    slow, fast = attempt(unit("slow"), 1.2), attempt(unit("fast"), 1.6)
    parents = ((slow, slow.candidate.units[0]), (fast, fast.candidate.units[0]))
    (joined,) = brain.combine_units(situation((slow, fast), round=1), parents, 1)
    assert "++i" in joined.source
    told = chat.asked[0].prompt
    assert told.index("1.60x") < told.index("1.20x")
    assert all(u.source.strip() in told for _, u in parents)


def test_a_unit_without_source_is_neither_edited_nor_combined() -> None:
    brain, chat, _ = make_brain(lambda *_: "")
    parent = attempt(unit("parent"), 1.2)
    plain = parent.candidate.units[0].model_construct(language="aten", source="", region=whole())
    assert brain.edit_unit(situation((parent,), round=1), parent, plain, 2) == []
    assert brain.combine_units(situation((parent,)), ((parent, plain), (parent, plain)), 1) == []
    assert chat.asked == []


def test_advice_may_name_the_other_operators_within_bounds() -> None:
    working = situation((attempt(unit(), 1.2),), round=1)
    plan = advised('{"rewrites": 0, "edits": 99, "transplants": 99, "simplifications": 1}').advise(working)
    assert plan is not None
    assert (plan.edits, plan.transplants, plan.simplifications) == (4, 2, 1)
    assert plan.places()["edit"] == 4
