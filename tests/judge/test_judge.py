"""The judge from end to end on one small task: real processes, real compiler, failures as values, a lost
worker survived.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from warpsmith.judge import judge_session
from warpsmith.judge.correctness.input_families import OWN
from warpsmith.judge.device.memory import CHECKS
from warpsmith.judge.judge import Judge
from warpsmith.judge.judge_session import MIN_PATIENCE_S
from warpsmith.judge.timing.baselines import audit
from warpsmith.judge.timing.bench import BaselineLost, BenchRun, ClocksDisagree
from warpsmith.processes.worker import WorkerFailed
from warpsmith.records import UNEXPLAINED, Candidate, Region, Result, Unit
from warpsmith.tasks.regions import make_region
from warpsmith.tasks.secret_variant import SECRET_SHAPE

pytestmark = [pytest.mark.slow, pytest.mark.alone]
TASK = """
import torch
ROWS = 32
DIM = 500
VARIANTS = {"ragged": {"ROWS": 5, "DIM": 67}}
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


TOLD: list[str] = []  # by the judge, as its progress


@pytest.fixture(scope="module")
def judge(open_judge: Callable[..., Any]) -> Iterator[Judge]:
    with open_judge(TASK, progress=TOLD.append) as judge:
        yield judge


def candidate(judge: Judge, expression: str, region: Region | None = None, **fields: object) -> Candidate:
    region = region or make_region(judge.task.graph, [n.name for n in judge.task.graph.nodes])
    source = UNIT.replace("EXPRESSION", expression)
    unit = Unit(region=region, language="c++", source=source, **fields)  # type: ignore[arg-type]
    return Candidate(task_id=judge.task.id, target="cpu", units=(unit,))


def judged(judge: Judge, *expressions: str) -> list[Result]:
    return list(judge.evaluate([candidate(judge, e) for e in expressions]))


def test_open_knows_the_task(judge: Judge) -> None:
    assert judge.admission.admitted, judge.admission.reasons
    assert judge.baselines["eager"].ok
    assert judge.baselines["eager"].median_us > 0
    assert set(judge.node_us) == {n.name for n in judge.task.graph.nodes}
    assert judge.limit.seconds > 0
    assert not judge.disagreeing
    notes = audit(judge.baselines, judge.limit)
    assert notes, "a task this small is bound by call overhead"
    assert set(notes) <= set(TOLD)


def test_a_round_verified_together_comes_out_the_same(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "_at_once", lambda: 3)
    wrong = [f"{GOOD} + {i}" for i in range(1, 4)]
    results = judged(judge, wrong[0], GOOD, wrong[1], "tanhf(x[i]", "*(volatile float*)(8 + i)", wrong[2])
    assert [r.status for r in results] == [
        "incorrect", "ok", "incorrect", "build-failed", "crashed", "incorrect",
    ]  # fmt: skip
    assert results[1].verdict is not None
    assert results[1].timing is not None
    assert results[1].timing.unit_us
    assert "verifying 6 candidates, 3 at a time" in TOLD


def test_a_unit_that_hangs_is_given_up_soon(judge: Judge) -> None:
    assert judge.verifier.limits.timeout == MIN_PATIENCE_S  # eager takes microseconds here


@pytest.mark.parametrize(("kind", "status"), [("OutOfMemoryError", "error"), ("RuntimeError", "crashed")])
def test_a_gpu_without_memory_says_nothing_of_a_candidate(
    judge: Judge, monkeypatch: pytest.MonkeyPatch, kind: str, status: str
) -> None:
    def time(*_: Any, **__: Any) -> Any:
        raise WorkerFailed(kind, "CUDA out of memory. Tried to allocate 3.00 GiB")

    monkeypatch.setattr(judge.bench, "time", time)
    (result,) = judge.evaluate([candidate(judge, GOOD)])
    assert (result.status, result.reason.split(":")[0]) == (status, "as deployed")


@pytest.mark.parametrize(("spoilt", "status", "runs"), [(1, "ok", 2), (9, "invalid", 2)])
def test_clocks_that_disagree_are_compared_once_more(
    judge: Judge, monkeypatch: pytest.MonkeyPatch, spoilt: int, status: str, runs: int
) -> None:
    """A busy machine spoils one run; a clock that lies spoils each."""
    time, begun = judge.bench.time, list[int]()

    def spoil(*args: Any, **options: Any) -> BenchRun:
        begun.append(1)
        if len(begun) <= spoilt:
            raise ClocksDisagree("61 ms more passed on the supervisor's clock")
        return time(*args, **options)

    monkeypatch.setattr(judge.bench, "time", spoil)
    [result] = judge.evaluate([candidate(judge, GOOD)])
    assert (result.status, len(begun)) == (status, runs), result.reason


def test_a_limit_that_is_beaten_is_measured_again_once(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """The peaks may have been measured on a busy machine: a share above 1 would mislead whoever steers by it."""
    true, asked = judge.limit, []

    def measured(refresh: bool = False) -> None:
        asked.append(refresh)
        monkeypatch.setattr(judge, "limit", true)

    monkeypatch.setattr(judge, "_measure_limit", measured)
    monkeypatch.setattr(judge, "_limit_again", False)
    for number in (1, 2):
        monkeypatch.setattr(judge, "limit", true.model_copy(update={"seconds": 1.0, "least_bytes": 0}))
        (result,) = judged(judge, f"{GOOD} + 0.0f * {number}")
        assert result.timing is not None, result.reason
        assert asked == [True], "once, since an algorithmic candidate beats a true limit"
        assert (result.timing.limit_share < 1.0) == (number == 1)


def test_all_shares_follow_a_limit_that_is_measured_again(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("peaks", "limit", "baselines"):
        monkeypatch.setattr(judge, name, getattr(judge, name))  # as they were, for the tests that follow
    before, peaks = judge.limit, judge.peaks
    faster = {
        name: {size: 2 * rate for size, rate in getattr(peaks, name).items()}
        for name in ("read", "copy_", "stream")
    }
    better = peaks.model_copy(update={**faster, "flops": 2 * peaks.flops})
    monkeypatch.setattr(judge_session, "measure_peaks", lambda *_, **__: better)
    assert judge.remeasure_limit() == judge.limit
    assert judge.limit.seconds == pytest.approx(before.seconds / 2)
    assert judge.limit.peaks == better.used != before.peaks
    (result,) = judged(judge, GOOD)
    assert result.timing is not None, result.reason
    assert result.timing.limit == judge.limit
    shares = [(result.timing.limit_share, result.timing.median_us)]
    shares += [(b.limit_share, b.median_us) for b in judge.baselines.values() if b.ok]
    assert all(share == judge.limit.share(us) for share, us in shares)


def test_a_round_gives_one_result_each_in_order(judge: Judge) -> None:
    good, zeros, broken, segfault = judged(judge, GOOD, "0", "tanhf(x[i]", "*(volatile float*)(8 + i)")
    assert good.status == "ok", good.reason
    assert good.verdict is not None
    assert good.verdict.labels == ("kernel", "general", "deterministic", "float32")
    assert good.timing is not None
    assert good.timing.ratio("eager") is not None
    assert not good.timing.confirmed
    assert set(good.seconds) == {"build", "verify", "time"}
    assert {c.variant for c in good.verdict.checks} == {"main", "ragged"}
    best = good.timing.best
    assert best is not None
    if best.high >= 1:  # what surely loses is not looked at again
        assert "whole" in {c.where for c in good.verdict.checks}
    assert good.environment == judge.environment.id
    assert zeros.status == "incorrect"
    assert "all zeros" in zeros.reason
    assert broken.status == "build-failed"
    assert segfault.status == "crashed"
    assert segfault.timing is None


def test_low_precision_is_told_from_fp32(judge: Judge) -> None:
    (result,) = judged(judge, "(float)(_Float16)tanhf(x[i]) * 2.0f + 1.0f")
    assert result.status == "incorrect"
    assert "budget" in result.reason


def test_no_unit_at_all_is_a_library_result(judge: Judge) -> None:
    (result,) = judge.evaluate([Candidate(task_id=judge.task.id, target="cpu", units=())])
    assert result.status == "ok", result.reason
    assert result.verdict is not None
    assert result.verdict.labels[0] == "library"


def test_a_region_that_lies_is_refused(judge: Judge) -> None:
    true = make_region(judge.task.graph, [n.name for n in judge.task.graph.nodes])
    lie = true.model_copy(update={"outputs": (*true.outputs, *true.inputs)})
    elsewhere = true.model_copy(update={"nodes": ("nowhere",), "inputs": ("nothing",)})
    foreign = candidate(judge, GOOD).model_copy(update={"task_id": "another"})
    for wrong in (candidate(judge, GOOD, lie), candidate(judge, GOOD, elsewhere), foreign):
        (result,) = judge.evaluate([wrong])
        assert result.status == "refused", result.reason


def test_what_was_verified_is_timed_again_and_what_the_timed_calls_return_is_checked(judge: Judge) -> None:
    good, wrong = judge.remeasure([candidate(judge, GOOD), candidate(judge, "tanhf(x[i]) * 2.0f")])
    assert good.status == "ok"
    assert good.timing is not None
    assert good.timing.ratio("eager") is not None
    assert not good.timing.confirmed
    assert "verify" not in good.seconds
    assert wrong.status == "incorrect"
    assert "in a timed run" in wrong.reason


def test_confirm_is_fresh_and_wider(judge: Judge) -> None:
    judged(judge, "tanhf(x[i]) + tanhf(x[i]) + 1.0f")
    old = judge.bench.pool.timings["eager"]
    result = judge.confirm(candidate(judge, GOOD))
    assert result.status == "ok", result.reason
    assert result.timing is not None
    assert result.timing.confirmed
    assert result.timing.warm_us
    assert judge.bench.pool.timings["eager"] is not old
    assert result.verdict is not None
    assert len({c.family for c in result.verdict.checks}) > 8
    assert sum(c.family == OWN for c in result.verdict.checks) >= CHECKS


def test_a_confirmation_tries_shapes_that_stand_nowhere(judge: Judge) -> None:
    known = "(in0_shape[1] == 500 || in0_shape[1] == 67)"
    unit = f"{GOOD} + ({known} ? 0.0f : 1.0f)"
    (searched,) = judged(judge, unit)
    assert searched.status == "ok"
    result = judge.confirm(candidate(judge, unit))
    assert result.status == "incorrect"
    assert f"({SECRET_SHAPE})" in result.reason
    right = judge.confirm(candidate(judge, GOOD))
    assert right.verdict is not None
    assert {c.variant for c in right.verdict.checks} == {"main", "ragged", SECRET_SHAPE}
    unmet = candidate(judge, GOOD, requires=("in0_shape[1] == 500 || in0_shape[1] == 67",))
    assert judge.confirm(unmet).status == "ok"  # it says that it is specialised


def test_faster_than_arithmetic_is_unexplained_and_no_win(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    (honest,) = judged(judge, GOOD)
    slow = judge.limit.model_copy(update={"flops_per_second": 1e6})
    monkeypatch.setattr(judge, "limit", slow)
    (result,) = judged(judge, GOOD)
    assert honest.verdict is not None
    assert result.verdict is not None
    assert (honest.verdict.labels[0], result.verdict.labels[0]) == ("kernel", UNEXPLAINED)
    assert result.status == "ok"
    assert not result.win
    assert "arithmetic" in result.verdict.reasons[0]


def test_nothing_is_confirmed_against_fewer_baselines(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(**_: object) -> None:
        raise BaselineLost("the eager baseline, which worked before, does not now: out of memory")

    monkeypatch.setattr(judge, "_fresh_baselines", False)
    with monkeypatch.context() as patched:
        patched.setattr(judge.bench.pool, "restart", lost)
        found = judge.confirm(candidate(judge, GOOD))
    assert (found.status, found.timing) == ("error", None)
    assert "eager baseline" in found.reason
    assert judge.confirm(candidate(judge, GOOD)).status == "ok"


def test_a_killed_reference_worker_is_restarted(judge: Judge) -> None:
    reference = judge._workers._reference
    assert reference is not None
    os.kill(reference.process.pid, signal.SIGKILL)
    reference.process.wait()
    (result,) = judged(judge, "2.0f * tanhf(x[i]) + 1.0f")
    assert result.status == "ok", result.reason


def test_a_killed_baseline_is_restarted(judge: Judge) -> None:
    assert judge.bench.pool._baselines is not None
    eager = judge.bench.pool._baselines.alive["eager"].worker.process
    os.kill(eager.pid, signal.SIGKILL)
    eager.wait()
    (result,) = judged(judge, "1.0f + 2.0f * tanhf(x[i])")
    assert result.status == "ok", result.reason


def test_what_is_much_faster_deployed_than_in_isolation_is_invalid(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsmith.judge.judge.FASTER_DEPLOYED", 1e6)  # nothing is as slow as that
    result = judge.confirm(candidate(judge, GOOD))
    assert result.status == "invalid"
    assert "in isolation" in result.reason
