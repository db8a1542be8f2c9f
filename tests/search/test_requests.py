"""What people ask of a search changes how it goes: a pinned parent, a hypothesis, a kernel, a stop."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from scripted_search import Varying, searched

from warpsmith.records import Candidate, Hypothesis, Tunable, Unit
from warpsmith.records.live import Request, RequestStatus
from warpsmith.search.loop import Search
from warpsmith.testing import ScriptedExecutor, chain_region, chain_task

GRAPH = chain_task().graph
SPEEDS = {"a": 1.2, "b": 2.0, "c": 1.1, "z": 3.0}


class ScriptedInbox:
    """`asked`: requests by the round before which they are taken."""

    def __init__(self, asked: dict[int, list[Request]]) -> None:
        self.asked, self.answers = asked, list[tuple[str, RequestStatus, str]]()

    def take(self, round_number: int) -> Sequence[Request]:
        return self.asked.pop(round_number, [])

    def answer(self, request: Request, status: RequestStatus, text: str) -> None:
        self.answers.append((request.kind, status, text))


def make_request(kind: str, **body: str) -> Request:
    return Request(number=1, activity_id="a", run_id="r", kind=kind, body=body, made_at="", status="waiting")


def speed(candidate: Candidate) -> float | str:
    known = [SPEEDS.get(u.technique[:1], 1.0) for u in candidate.units]
    return max(known) if known else 1.0


def make_search(inbox: ScriptedInbox, evaluations: int = 30) -> Search:
    search = searched(ScriptedExecutor(speed), brain=Varying(), evaluations=evaluations, run=False)
    search.inbox = inbox
    return search


def count_children(search: Search, candidate_id: str) -> int:
    edits = [a.candidate.lineage for a in search.attempts if a.candidate.lineage.operator in ("edit", "tune")]
    return sum(candidate_id in lineage.parents for lineage in edits)


def make_unit(technique: str) -> Unit:
    tunables = (Tunable(name="UNROLL", domain=(1, 2, 4), value=1),)
    return Unit(
        region=chain_region(GRAPH, 0, 0), language="c++", source=f"// {technique}\nhandwritten(UNROLL);", tunables=tunables,
        family="fake", technique=technique,
    )  # fmt: skip


def make_kernel(technique: str = "z", **changes: str) -> Candidate:
    unit = make_unit(technique)
    return Candidate(
        **{"task_id": chain_task().id, "target": "cpu", **changes},
        units=(unit,),
        lineage={"operator": "given"},
    )


def make_hypothesis(technique: str = "z") -> Hypothesis:
    return Hypothesis(
        region=chain_region(GRAPH, 1, 1), family="fake", technique=technique, bottleneck="memory", expected_gain=1.2,
        evidence=("somebody says so",),
    )  # fmt: skip


def test_a_pinned_parent_has_children_however_slow_it_is() -> None:
    plain = make_search(ScriptedInbox({}))
    plain.run()
    first = [a for a in plain.attempts if a.candidate.lineage.round == 0 and a.speedup > 0]
    slow = min(first, key=lambda a: a.speedup).candidate
    inbox = ScriptedInbox({1: [make_request("pin", candidate=slow.id)]})
    pinned = make_search(inbox)
    pinned.run()
    assert count_children(plain, slow.id) == 0
    assert count_children(pinned, slow.id) > 0
    assert inbox.answers == [("pin", "done", "pinned as the first parent from round 1 on")]


def test_a_pin_can_be_taken_back() -> None:
    search = make_search(ScriptedInbox({}))
    search.run()
    best = search.methods.population.best()
    assert best is not None
    search.methods.population.pin(best)
    search.inbox = ScriptedInbox({search.round: [make_request("pin", candidate="")]})
    search._serve_inbox(random.Random(1))
    assert search.methods.population.pinned is None


def test_a_kernel_is_judged_and_its_verdict_is_the_answer() -> None:
    inbox = ScriptedInbox({1: [make_request("kernel", candidate=make_kernel().model_dump_json())]})
    search = make_search(inbox)
    search.run()
    (attempt,) = [a for a in search.attempts if a.candidate.lineage.operator == "given"]
    assert attempt.speedup == 3.0
    assert attempt.candidate.lineage.round == 1
    (answer,) = inbox.answers
    assert answer[:2] == ("kernel", "done")
    assert "correct, 3.0" in answer[2]
    assert "over " in answer[2]
    assert "given" in {use.operator for use in search.uses}
    # it is a parent like any other
    assert any(attempt.candidate.id in a.candidate.lineage.parents for a in search.attempts)


def test_a_kernel_gets_its_verdict_in_two_tiers_too() -> None:
    inbox = ScriptedInbox({1: [make_request("kernel", candidate=make_kernel("d").model_dump_json())]})
    search = make_search(inbox)
    search.screener = search.executor  # type: ignore[assignment]
    search.run()
    (attempt,) = [a for a in search.attempts if a.candidate.lineage.operator == "given"]
    assert attempt.result.status == "ok"
    assert "correct" in inbox.answers[0][2]


def test_a_kernel_that_was_judged_before_is_answered_from_then() -> None:
    kernel = make_kernel().model_dump_json()
    inbox = ScriptedInbox(
        {1: [make_request("kernel", candidate=kernel)], 2: [make_request("kernel", candidate=kernel)]}
    )
    search = make_search(inbox)
    search.run()
    assert [a[1] for a in inbox.answers] == ["done", "done"]
    assert inbox.answers[0][2] == inbox.answers[1][2]
    assert len([a for a in search.attempts if a.candidate.lineage.operator == "given"]) == 1


def test_a_hypothesis_is_written_and_judged() -> None:
    hypothesis = make_hypothesis()
    inbox = ScriptedInbox({1: [make_request("hypothesis", hypothesis=hypothesis.model_dump_json())]})
    search = make_search(inbox)
    search.run()
    tested = [a for a in search.attempts if a.hypothesis == hypothesis]
    assert [a.candidate.lineage.agent for a in tested] == ["person"] * len(tested)
    assert tested
    assert max(a.speedup for a in tested) == 3.0
    assert inbox.answers[0][1] == "done"


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (make_request("pin", candidate="nobody"), "no candidate nobody"),
        (make_request("kernel", candidate="{"), "cannot be read"),
        (make_request("hypothesis"), "cannot be read"),
        (make_request("kernel", candidate=make_kernel(target="cuda").model_dump_json()), "another task or target"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_with_the_reason(request_: Request, why: str) -> None:
    inbox = ScriptedInbox({0: [request_]})
    search = make_search(inbox, evaluations=5)
    search.run()
    (answer,) = inbox.answers
    assert answer[1] == "refused"
    assert why in answer[2]
    assert search.attempts


def test_a_stop_ends_a_search_at_once_even_in_its_first_round() -> None:
    search = make_search(ScriptedInbox({}))
    kept = []

    def stop_after_two(attempt: object) -> None:
        kept.append(attempt)
        if len(kept) == 2:
            search.meter.stopped = "stopped by somebody"

    search.record = stop_after_two
    assert search.run() == "stopped by somebody"
    assert len(search.attempts) == 2
