"""The client against a real server on loopback that misbehaves: every fault is a value, a wait, or one clear line."""

from __future__ import annotations

import gc
import json
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from typing import Any

import pytest

from warpsmith.config import Config
from warpsmith.errors import ModelError
from warpsmith.llm.chat import CUT, PASSING, BudgetSpent
from warpsmith.llm.client import DEAD_AFTER, Patience, mark_cached
from warpsmith.llm.faults import MAX_ANSWER_CHARACTERS
from warpsmith.llm.providers import MOST_BYTES
from warpsmith.llm.scripted_server import (
    Asked,
    Item,
    Reply,
    cut_off,
    empty,
    failing,
    garbage,
    hang_up,
    huge,
    invalid_utf8,
    refusing,
    slow,
)  # fmt: skip
from warpsmith.llm.setup import open_chats
from warpsmith.records import Budget, Usage

Start = Callable[..., Any]
ONCE = Patience(tries=1, tries_slow=1)


def test_a_question_and_its_answer(asking: Start, canary: str) -> None:
    it = asking(
        [Reply("int main", input_tokens=100, cached_tokens=80, output_tokens=7)],
        temperature=0.5, max_answer_tokens=77, price="1/2",
    )  # fmt: skip
    got = it.ask("write", turn=2)
    sent = it.server.requests[0]
    assert (got.answer, got.error, got.role, got.model, got.turn) == (
        "int main", "", "reasoning", "openai:scripted", 2,
    )  # fmt: skip
    assert got.usage == Usage(input_tokens=100, cached_tokens=80, output_tokens=7)
    assert got.usd == pytest.approx((100 * 1 + 7 * 2) / 1e6)
    assert (sent.model, sent.system, sent.prompt) == ("scripted", "be brief", "write")
    assert (sent.body["temperature"], sent.body["max_tokens"]) == (0.5, 77)
    assert sent.headers["authorization"] == f"Bearer {canary}"
    assert (it.meter.tokens, it.meter.usd) == (107, got.usd)


def test_a_price_that_is_not_known_is_none(asking: Start) -> None:
    it = asking(["hello"])
    assert it.ask().usd is None
    assert it.meter.tokens > 0


@pytest.mark.parametrize("claimed", [0, -5000])
@pytest.mark.filterwarnings("ignore:Failed to extract usage")
def test_tokens_are_counted_where_the_server_does_not(asking: Start, claimed: int) -> None:
    it = asking([Reply("x" * 400, input_tokens=claimed, output_tokens=claimed)], price="1/1")
    got = it.ask("p" * 392)  # and 8 of the system text
    assert got.usage == Usage(input_tokens=100, output_tokens=100)
    assert got.usd == pytest.approx(200 / 1e6)


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (empty(), "empty"),
        (Reply(" \n\t"), "empty"),
        (refusing("not that"), "refused: not that"),
        (Reply("", finish="content_filter"), "refused"),
        (cut_off("int ma"), "cut off"),
        (huge(), "2,097,152 characters"),
    ],
)
def test_an_answer_of_no_use_is_an_error_and_is_paid(asking: Start, item: Reply, said: str) -> None:
    it = asking([item] * (DEAD_AFTER + 1))
    got = [it.ask(f"question {n}") for n in range(DEAD_AFTER + 1)]  # the endpoint is not to blame
    assert all(said in e.error and not e.error.startswith(PASSING) for e in got)
    assert all(len(e.answer) <= MAX_ANSWER_CHARACTERS for e in got)
    assert len(it.server.requests) == len(got)
    assert it.meter.tokens == sum(e.usage.input_tokens + e.usage.output_tokens for e in got) > 0


@pytest.mark.parametrize(
    "item",
    [
        failing(500), failing(502), failing(503), failing(429), hang_up(), hang_up(after=0), garbage(),
        invalid_utf8(), Reply(raw=b"[1, 2]"), Reply(raw=b'{"choices": []}'), Reply(raw=b'"text"'),
        Reply("x" * (MOST_BYTES + 1)),
    ],
)  # fmt: skip
def test_what_may_pass_is_asked_again(asking: Start, item: Reply) -> None:
    it = asking([item, "well"])
    assert it.ask().answer == "well"
    assert len(it.server.requests) == 2


def test_what_does_not_pass_is_an_error_after_some_tries(asking: Start) -> None:
    it = asking(lambda _: failing(500))
    got = it.ask()
    assert got.error.startswith(PASSING)
    assert "500" in got.error
    assert got.answer == ""
    assert len(it.server.requests) == Patience().tries


def test_a_slow_answer_is_given_up(asking: Start) -> None:
    it = asking(lambda _: slow("late", 5.0), model_timeout=0.2)
    got = it.ask()
    assert got.error.startswith(PASSING)
    assert "timed out" in got.error
    assert len(it.server.requests) == Patience().tries_slow


@pytest.mark.parametrize("header", ["seconds", "date", "ms"])
def test_retry_after_is_honoured(asking: Start, header: str) -> None:
    headers = {
        "seconds": {"Retry-After": "1"},
        "date": {"Retry-After": formatdate(time.time() + 2, usegmt=True)},
        "ms": {"retry-after-ms": "900"},
    }[header]
    it = asking([failing(429, headers), "well"])
    assert it.ask().answer == "well"
    first, second = it.server.requests
    assert second.at - first.at >= 0.85  # the pauses of these tests are a hundredth of that


def test_a_wait_without_end_is_not_taken(asking: Start) -> None:
    it = asking([failing(429, {"Retry-After": "86400"})])
    got = it.ask()
    assert got.error.startswith(PASSING)
    assert "86400 s" in got.error
    assert len(it.server.requests) == 1


@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "key is refused"), (403, "key is refused"), (404, "no such model"), (402, "nothing left")],
)
def test_what_will_not_pass_ends_it_at_once(asking: Start, status: int, said: str) -> None:
    it = asking(lambda _: failing(status))
    for _ in range(2):  # and stays so, without another request
        with pytest.raises(ModelError, match=said) as error:
            it.ask()
        assert "\n" not in str(error.value)
    assert "openai:scripted" in str(error.value)
    assert len(it.server.requests) == 1


@pytest.mark.parametrize("item", [failing(500), failing(400), hang_up(), garbage()])
def test_a_dead_endpoint_is_a_model_error(asking: Start, item: Reply) -> None:
    it = asking(lambda _: item, patience=ONCE)
    for n in range(DEAD_AFTER - 1):
        assert it.ask(f"question {n}").error
    with pytest.raises(ModelError, match=f"{DEAD_AFTER} questions in a row"):
        it.ask("one more")
    with pytest.raises(ModelError):
        it.ask("and another")
    assert len(it.server.requests) == DEAD_AFTER


def test_a_server_that_is_not_there(asking: Start) -> None:
    it = asking([], patience=ONCE, base_url="http://127.0.0.1:9/v1")
    assert "cannot be reached" in it.ask("1").error
    assert "cannot be reached" in it.ask("2").error
    with pytest.raises(ModelError, match=r"127\.0\.0\.1:9"):
        it.ask("3")


def test_one_answer_in_between_keeps_it_alive(asking: Start) -> None:
    it = asking([failing(500), failing(500), "well", failing(500), failing(500), "well"], patience=ONCE)
    errors = [bool(it.ask(f"question {n}").error) for n in range(6)]
    assert errors == [True, True, False, True, True, False]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("context_length_exceeded", "too long"),  # OpenAI
        (
            "exceed_context_size_error",
            "request (4019 tokens) exceeds the available context size (2048 tokens)",
        ),
        (
            "",
            "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
        ),  # vLLM
    ],
)
def test_a_question_that_is_too_long_does_not_kill_the_model(asking: Start, code: str, message: str) -> None:
    error = {"error": {"message": message, "code": code, "type": "invalid_request_error"}}
    it = asking(lambda _: Reply(status=400, raw=json.dumps(error).encode()))
    for n in range(DEAD_AFTER + 1):
        assert "too long for this model" in it.ask(f"question {n}").error


@pytest.mark.parametrize("limit", [Budget(evaluations=None, seconds=None, tokens=300),
                                   Budget(evaluations=None, seconds=None, usd=300e-6)])  # fmt: skip
def test_a_limit_that_is_reached_forbids_the_next_question(asking: Start, limit: Budget) -> None:
    it = asking(lambda _: Reply("a", input_tokens=90, output_tokens=10), budget=limit, price="1/1")
    for n in range(3):
        assert it.ask(f"question {n}").answer == "a"
    with pytest.raises(BudgetSpent, match="budget of"):
        it.ask("one more")
    assert len(it.server.requests) == 3


def test_a_question_does_not_outlast_the_run_and_is_kept_as_cut(asking: Start) -> None:
    it = asking([slow("late", 10.0)], budget=Budget(evaluations=None, seconds=0.5))
    with pytest.raises(BudgetSpent, match="time of"):
        it.ask()
    assert it.meter.seconds < 5
    (kept,) = it.ledger.kept.values()
    assert kept.error.startswith(CUT)
    assert kept.error.endswith(str(it.meter.find_reached_limit()))
    assert (kept.answer, kept.usage, it.meter.tokens) == ("", Usage(), 0)


def test_no_more_questions_at_once_than_allowed(asking: Start) -> None:
    now, most, lock = 0, 0, threading.Lock()

    def count(_: Asked) -> Item:
        nonlocal now, most
        with lock:
            now, most = now + 1, max(most, now + 1)
        time.sleep(0.1)
        with lock:
            now -= 1
        return "well"

    it = asking(count, model_concurrency=3)
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(it.ask, [f"question {n}" for n in range(8)]))
    assert all(e.answer == "well" for e in got)
    assert most == 3


def test_an_interrupt_ends_the_waiting(asking: Start) -> None:
    it = asking([slow("late", 60.0)])
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        it.ask()
    assert time.monotonic() - started < 10


def test_nothing_is_left_behind(asking: Start, ledger: Any) -> None:
    it = asking(lambda _: "well")
    config = Config(model="openai:a", base_url=it.server.base_url)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        before = set(threading.enumerate())
        with open_chats(config, it.meter, ledger, "run") as chats:
            assert chats["compile"].ask("compile", "s", "p").answer == "well"
            inside = {t.name for t in set(threading.enumerate()) - before}
        left = {t.name for t in set(threading.enumerate()) - before}
        gc.collect()
    assert "models" in inside
    assert "models" not in left
    assert not [w for w in warned if issubclass(w.category, ResourceWarning | RuntimeWarning)]


def test_the_key_is_nowhere(asking: Start, canary: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Also when the server repeats it, in an answer, a refusal, an error, or the end of everything."""
    told = f"your key is {canary}"
    it = asking([told, refusing(told), failing(400, message=told), failing(401, message=told)])
    got = [it.ask("1"), it.ask("2"), it.ask("3")]
    with pytest.raises(ModelError) as error:
        it.ask("4")
    assert got[0].answer == "your key is [key]"
    assert "[key]" in got[1].error
    assert "[key]" in got[2].error
    assert "[key]" in str(error.value)
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__ or error.value.__context__ is None
    texts = [e.model_dump_json() for e in (*got, *it.ledger.kept.values())]
    assert not any(canary in t for t in (*texts, str(error.value), *capfd.readouterr()))


def test_text_that_cannot_be_kept_is_made_keepable(asking: Start) -> None:
    body = Reply(raw=b'{"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, '
                     b'"finish_reason": "stop", "message": {"role": "assistant", "content": "a\\ud800b"}}]}')  # fmt: skip
    got = asking([body]).ask()
    assert got.answer == "a?b"
    assert got.model_dump_json().encode()


def test_what_questions_of_a_run_begin_with_is_marked_where_a_provider_wants_marks() -> None:
    from pydantic_ai.messages import CachePoint

    prompt = "the run\n\n# Your task now (prompt edit 2)\n\nedit"
    head, point, tail = mark_cached("anthropic:some-model", prompt)
    assert isinstance(point, CachePoint)
    assert head + tail == prompt
    assert mark_cached("openai:some-model", prompt) == prompt
    assert mark_cached("anthropic:some-model", "no run") == "no run"
