"""What is recorded is not asked again; what is replayed is never asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from warpsmith.config import Config
from warpsmith.errors import ModelError
from warpsmith.llm.chat import BudgetSpent
from warpsmith.llm.client import Patience
from warpsmith.llm.scripted_server import Asked, Item, Reply, cut_off, failing, slow
from warpsmith.llm.setup import open_replayed_chats
from warpsmith.records import Budget
from warpsmith.search.meter import Meter

Start = Callable[..., Any]
COSTLY = Reply("a", input_tokens=90, output_tokens=10)


def test_the_same_question_is_asked_once(asking: Start) -> None:
    it = asking(lambda _: COSTLY)
    first = it.ask("q")
    assert it.ask("q") == first
    assert it.ask("q", turn=1) != first
    assert it.chat.ask("synthesis", "be brief", "q") != first
    assert it.chat.ask("reasoning", "be long", "q") != first
    assert len(it.server.requests) == 4
    assert it.meter.tokens == 400


def test_threads_that_ask_the_same_share_the_answer(asking: Start) -> None:
    started = threading.Event()

    def answer(_: Asked) -> Item:
        started.wait(0.2)
        return COSTLY

    it = asking(answer)
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(it.ask, ["q"] * 4))
    assert len(it.server.requests) == 1
    assert got == [got[0]] * 4
    assert it.meter.tokens == 100


def test_a_resumed_run_pays_for_nothing_twice_but_counts_it(asking: Start, ledger: Any) -> None:
    first = asking(lambda _: COSTLY, ledger=ledger)
    before = [first.ask(f"question {n}") for n in range(3)]
    again = asking([COSTLY], Budget(evaluations=None, seconds=None, tokens=400), ledger=ledger)
    assert [again.ask(f"question {n}") for n in range(3)] == before
    assert again.meter.tokens == 300
    assert not again.server.requests
    assert again.ask("new").answer == "a"
    with pytest.raises(BudgetSpent, match="400 tokens"):
        again.ask("newer")
    assert again.ask("question 1") == before[1]  # what was paid for is there, whatever the limits say


def test_a_fault_that_may_have_passed_is_asked_again_on_resume_only(asking: Start, ledger: Any) -> None:
    once = Patience(tries=1)
    first = asking([failing(503), cut_off("int ma")], patience=once, ledger=ledger)
    failed, cut = first.ask("q"), first.ask("r")
    assert failed.error
    assert first.ask("q") == failed
    assert len(first.server.requests) == 2
    again = asking(["well"], patience=once, ledger=ledger)
    assert again.ask("q").answer == "well"
    assert again.ask("r") == cut
    assert len(again.server.requests) == 1
    assert asking([], ledger=ledger).ask("q").answer == "well"


def test_a_question_that_was_cut_ends_a_replay_and_is_asked_again_on_resume(
    asking: Start, ledger: Any
) -> None:
    with pytest.raises(BudgetSpent, match="time of"):
        asking([slow("late", 10.0)], budget=Budget(evaluations=None, seconds=0.5), ledger=ledger).ask("q")
    chat = open_replayed_chats(Config(model="openai:scripted"), Meter(Budget()), ledger, "run")["reasoning"]
    with pytest.raises(BudgetSpent, match=r"^time of"):
        chat.ask("reasoning", "be brief", "q")
    assert asking(["well"], ledger=ledger).ask("q").answer == "well"
    assert chat.ask("reasoning", "be brief", "q").answer == "well"


def test_replay_answers_from_the_record_alone(asking: Start, ledger: Any) -> None:
    it = asking([COSTLY, failing(503)], patience=Patience(tries=1), ledger=ledger)
    before = [it.ask("q"), it.ask("r")]
    meter = Meter(Budget())
    chat = open_replayed_chats(Config(model="openai:scripted"), meter, ledger, "run")["reasoning"]
    assert [chat.ask("reasoning", "be brief", "q"), chat.ask("reasoning", "be brief", "r")] == before
    assert chat.ask("reasoning", "be brief", "q") == before[0]
    assert meter.tokens == 100
    with pytest.raises(ModelError, match="run run holds no answer"):
        chat.ask("reasoning", "be brief", "never asked")
    other = open_replayed_chats(Config(model="openai:other"), meter, ledger, "run")["reasoning"]
    with pytest.raises(ModelError):
        other.ask("reasoning", "be brief", "q")
    assert len(it.server.requests) == 2
