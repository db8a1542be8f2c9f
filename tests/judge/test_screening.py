"""Screening on a CPU: real processes and a real compiler; who is worth a verdict, and that an estimate is no speedup."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from warpsmith.judge.screening import DOUBT, ScreeningJudge, estimate
from warpsmith.records import BaselineTiming, Candidate, Result, Unit
from warpsmith.tasks.regions import make_region
from warpsmith.testing import chain_candidate, chain_task

pytestmark = [pytest.mark.slow, pytest.mark.alone]
TASK = """
import torch
ROWS = 32
DIM = 500
VARIANTS = {"ragged": {"ROWS": 5, "DIM": 67}, "large": {"ROWS": 300}}
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x) * 2.0 + 1.0
def get_inputs():
    return [torch.rand(ROWS, DIM)]
def get_init_inputs():
    return []
"""
UNIT = """// warpsmith-unit: 1
#include "task.h"
#include <math.h>
static void unit(const in0_t* x, out0_t* y, void* workspace, void* stream) {
  for (int64_t i = 0; i < in0_numel; i++) y[i] = EXPRESSION;
}
"""
GOOD = "tanhf(x[i]) * 2.0f + 1.0f"


@pytest.fixture(scope="module")
def judge(open_judge: Callable[..., Any]) -> Iterator[ScreeningJudge]:
    with open_judge(TASK, kind=ScreeningJudge, begun=True) as judge:
        judge.begin()
        yield judge


def make_candidate(judge: ScreeningJudge, expression: str) -> Candidate:
    region = make_region(judge.task.graph, [n.name for n in judge.task.graph.nodes])
    unit = Unit(region=region, language="c++", source=UNIT.replace("EXPRESSION", expression))
    return Candidate(task_id=judge.task.id, target="cpu", units=(unit,))


def screen(judge: ScreeningJudge, *expressions: str) -> list[Result]:
    return list(judge.screen([make_candidate(judge, e) for e in expressions]))


def test_each_failure_is_told_from_what_passes_before_any_baseline_is_timed(judge: ScreeningJudge) -> None:
    assert not judge.baselines
    results = screen(
        judge,
        GOOD,
        f"{GOOD} + 1",
        "tanhf(x[i]",
        "*(volatile float*)(8 + i)",
        f"in0_numel == 335 ? 0 : {GOOD}",
    )
    assert [r.status for r in results] == [
        "screened", "incorrect", "build-failed", "crashed", "incorrect",
    ]  # fmt: skip
    assert [b.variant for b in results[0].builds] == ["main", "ragged"]  # one shape more, and no third
    assert all(r.reason for r in results)


def test_what_hangs_is_given_up_and_the_others_come_through(
    judge: ScreeningJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsmith.judge.screening.MIN_PATIENCE_S", 4.0)
    before = judge.verifier.limits
    results = screen(judge, f"({{ while (*(volatile const float*)x > -9.0f) ; 0.0f; }}) + {GOOD}", GOOD)
    assert [r.status for r in results] == ["timeout", "screened"]
    assert judge.verifier.limits == before


def test_an_estimate_is_no_speedup(judge: ScreeningJudge) -> None:
    (result,) = screen(judge, GOOD)
    assert result.timing is not None
    assert result.timing.estimate is not None
    assert result.timing.unit_us
    assert result.profile is not None
    assert result.promise == result.timing.estimate
    assert (result.speedup, result.verdict, result.win) == (None, None, False)
    assert Result.model_validate_json(result.model_dump_json()) == result


def make_pair(judge: ScreeningJudge, first: str, second: str) -> Candidate:
    """A unit for tanh and one for what follows it."""
    names = [n.name for n in judge.task.graph.nodes]
    regions = [make_region(judge.task.graph, part) for part in (names[:1], names[1:])]
    units = tuple(
        Unit(region=region, language="c++", source=UNIT.replace("EXPRESSION", expression))
        for region, expression in zip(regions, (first, second), strict=True)
    )
    return Candidate(task_id=judge.task.id, target="cpu", units=units)


def test_a_unit_is_run_once_for_all_candidates_that_have_it(
    judge: ScreeningJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    tanh, scaled, otherwise = "tanhf(x[i])", "x[i] * 2.0f + 1.0f", "1.0f + 2.0f * x[i]"
    runs: list[list[str]] = []
    verify = judge.verifier.verify

    def record(candidate: Candidate, *arguments: Any, **named: Any) -> Any:
        runs.append([u.code_key for u in candidate.units])
        return verify(candidate, *arguments, **named)

    monkeypatch.setattr(judge.verifier, "verify", record)
    first, second = make_pair(judge, tanh, scaled), make_pair(judge, tanh, otherwise)
    results = list(judge.screen([first, second]))
    assert runs == [[u.code_key for u in first.units], [second.units[1].code_key]]
    assert [r.status for r in results] == ["screened", "screened"]
    for candidate, result in zip((first, second), results, strict=True):
        assert result.timing is not None
        assert set(result.timing.unit_us) == {u.region.id for u in candidate.units}
        assert result.profile is not None
        assert len(result.profile.regions) == 2
    (again,) = judge.screen([first])  # by nothing but what is kept
    assert (len(runs), again.timing) == (2, results[0].timing)


def test_what_ran_beside_a_failure_is_run_for_the_next_that_has_it(judge: ScreeningJudge) -> None:
    tanh, scaled = "tanhf(x[i]) * 1.0f", "x[i] * 2.0f + (0.5f + 0.5f)"
    crash = "*(volatile float*)(8 + i)"
    wrong, right = make_pair(judge, crash, scaled), make_pair(judge, tanh, scaled)
    results = list(judge.screen([wrong, right, make_pair(judge, tanh, "x[i]")]))
    assert [r.status for r in results] == ["crashed", "screened", "incorrect"]
    assert results[1].timing is not None
    assert len(results[1].timing.unit_us) == 2


def test_a_verdict_follows_once_the_set_up_is_complete(judge: ScreeningJudge) -> None:
    judge.complete()
    assert judge.admission.admitted
    assert judge.baselines["eager"].ok
    (result,) = judge.evaluate([make_candidate(judge, GOOD)])
    assert result.status == "ok"
    assert result.speedup is not None
    (screened,) = screen(judge, GOOD)
    assert screened.status == "screened"


def test_screening_alone_waits_for_no_baseline_but_eager(open_judge: Callable[..., Any]) -> None:
    with open_judge(TASK, kind=ScreeningJudge, begun=True, baselines=("eager", "eager#2")) as judge:
        judge.begin_with_eager()
        assert set(judge.baselines) == {"eager"}
        inputs = set(judge.evidence._expected)
        judge.compute_truth([make_candidate(judge, GOOD).units[0].region])
        ahead = set(judge.evidence._expected) - inputs
        good, wrong = (screen(judge, e)[0] for e in (GOOD, "x[i]"))
        truths = set(judge.evidence._expected) - inputs
        assert truths == ahead  # screening itself computes none
        again = screen(judge, GOOD.replace("2.0f", "(1.0f + 1.0f)"))[0]
        assert [r.status for r in (good, wrong, again)] == ["screened", "incorrect", "screened"]
        assert (
            set(judge.evidence._expected) - inputs == truths
        )  # the inputs, and what is true of them, are kept
        assert good.timing is not None
        assert good.timing.estimate is not None
        assert good.timing.estimate.baseline == "eager"
        judge.complete()
        assert set(judge.baselines) == {"eager", "eager#2"}
        verdict = next(iter(judge.evaluate([make_candidate(judge, GOOD)])))
        assert verdict.status == "ok", verdict.reason


def test_estimates_add_up() -> None:
    candidate, graph = chain_candidate("a"), chain_task().graph
    (unit,) = candidate.units
    node_us = {n.name: 10.0 for n in graph.nodes}
    left = len(graph.nodes) - len(unit.region.nodes)
    baselines = {
        "eager": BaselineTiming(name="eager", ok=True, median_us=20.0 * len(graph.nodes)),
        "compile": BaselineTiming(name="compile", ok=True, median_us=12.0),
        "broken": BaselineTiming(name="broken", ok=False),
    }
    timing = estimate(candidate, graph, node_us, {unit.region.id: 5.0}, baselines, "cpu")
    assert timing.median_us == pytest.approx(
        5.0 + 4.0 + 20.0 * left
    )  # a call of a unit counts as 4 microseconds
    assert timing.estimate is not None
    assert timing.estimate.baseline == "compile"
    assert timing.estimate.median == pytest.approx(12.0 / timing.median_us)
    assert timing.estimate.low == pytest.approx(timing.estimate.median / DOUBT)
    captured = {
        **baselines,
        "cuda-graph": BaselineTiming(name="cuda-graph", ok=True, median_us=15.0 * len(graph.nodes)),
    }
    on_gpu = estimate(candidate, graph, node_us, {unit.region.id: 50.0}, captured, "cuda")
    assert on_gpu.median_us == pytest.approx(
        50.0 - 4.0 + 15.0 * left
    )  # ATen's part as in the captured reference
    unknown = estimate(candidate, graph, node_us, {unit.region.id: 5.0}, {}, "cpu")
    assert unknown.estimate is not None
    assert unknown.estimate.median == pytest.approx(10.0 * len(graph.nodes) / unknown.median_us)
