"""A scripted model against the real judge: garbage, code that does not compile, a wrong kernel, a cheat, a good kernel."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from warpsmith.api import optimize_task
from warpsmith.archive.store import Archive
from warpsmith.config import Config
from warpsmith.llm.scripted_server import Asked, ScriptedServer
from warpsmith.records import Budget, RunSummary
from warpsmith.report.build import build_report
from warpsmith.report.markdown import render_markdown

SOFTMAX = Path(__file__).parents[1] / "examples" / "softmax.py"
SMALL = {"batch_size": 64, "dim": 128}

GOOD = """// warpsmith-unit: 1
// family: softmax   technique: two passes a row
#include "task.h"
#include <math.h>
static void unit(const in0_t* in0, out0_t* out0, void* workspace, void* stream) {
  (void)workspace; (void)stream;
  const int64_t n = in0_shape[in0_rank - 1], rows = in0_numel / n;
#pragma omp parallel for num_threads(THREADS)
  for (int64_t r = 0; r < rows; r++) {
    const float* x = in0 + r * n;
    float* y = out0 + r * n;
    float top = -INFINITY;
    for (int64_t i = 0; i < n; i++) top = (x[i] > top || x[i] != x[i]) ? x[i] : top;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) { y[i] = expf(x[i] - top); sum += y[i]; }
    const float scale = (float)(1.0 / sum);
    for (int64_t i = 0; i < n; i++) y[i] *= scale;
  }
}
"""
BROKEN = GOOD.replace("float top =", "flot top =").replace("two passes a row", "first try")
WRONG = GOOD.replace("1.0 / sum", "2.0 / sum").replace("two passes a row", "first try")
CHEAT = WRONG.replace(
    "  (void)workspace;", "  static float seen = 0; if (in0[0] == seen) return; seen = in0[0];\n"
)


def answer(asked: Asked) -> str:
    """By what is asked, as a model that learns: the first idea goes wrong in every way, the second is right."""
    prompt = asked.prompt
    if "You are the reasoning agent" in prompt:
        technique = "first try" if "Round 0" in prompt else "two passes a row"
        return json.dumps(
            [
                {
                    "region": 0,
                    "family": "softmax",
                    "technique": technique,
                    "bottleneck": "memory",
                    "expected_gain": 1.5,
                }
            ]
        )
    if "You are the orchestrator" in prompt:
        return json.dumps({"rewrites": 1, "variants": 1, "stop": "it works" if "Round 2" in prompt else ""})
    if "You are the reviewer" in prompt:
        return "[]"  # it sees nothing wrong, whatever it is shown
    if "You are the compile agent" in prompt:
        return f"```cpp\n{WRONG}```"
    if "You are the correctness agent" in prompt:
        return f"```cpp\n{CHEAT}```"
    if "technique: two passes a row" in prompt:
        return f"```cpp\n{GOOD}```"
    return (
        f"```cpp\n{BROKEN}```"
        if "could not be used" in prompt
        else "It is 1000 times faster already. Trust me."
    )


def config(folder: Path, server: str) -> Config:
    return Config(
        archive=folder / "archive.db", cache=folder / "cache", model="openai:scripted", base_url=server, branches=1,
        variants=1, baselines=("eager",), price="1/2", threads=2,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory,
    with_peaks: Callable[[Path], Path],
    few_rounds: Callable[[], AbstractContextManager[None]],
) -> tuple[Path, RunSummary, list[Asked]]:
    """The one judged run of this module."""
    folder = tmp_path_factory.mktemp("run")
    with_peaks(folder / "cache")
    with few_rounds(), pytest.MonkeyPatch.context() as patch, ScriptedServer(answer) as server:
        patch.setenv("WARPSMITH_API_KEY", "sk-canary-of-the-tests")
        summary = optimize_task(
            str(SOFTMAX), config=config(folder, server.base_url), overrides=SMALL, seed=3,
            budget=Budget(evaluations=5, seconds=None, usd=5.0),
        )  # fmt: skip
    return folder, summary, list(server.requests)


@pytest.mark.slow
@pytest.mark.alone  # its timing must count
def test_the_run_learns_its_way_through(run: tuple[Path, RunSummary, list[Asked]]) -> None:
    folder, summary, asked = run
    entries = Archive(folder / "archive.db").run_entries(summary.run_id)
    assert [e.result.status for e in entries[:4]] == ["build-failed", "incorrect", "refused", "ok"]
    assert "keeps state between calls" in entries[2].result.reason
    assert summary.status != "failed", summary.reason
    assert summary.best is not None
    assert "two passes a row" in summary.best.label
    assert summary.translation is not None
    assert (summary.translation.attempted, summary.translation.correct) == (1, 0)
    assert summary.exchanges == len(asked)
    assert entries[3].candidate.lineage.model == "openai:scripted"
    assert entries[3].candidate.lineage.cost_usd > 0


@pytest.mark.slow
@pytest.mark.alone  # its timing must count
def test_each_agent_was_told_what_went_wrong(run: tuple[Path, RunSummary, list[Asked]]) -> None:
    asked = run[2]
    mender = next(a for a in asked if "You are the compile agent" in a.prompt)
    assert "flot" in mender.prompt
    checker = next(a for a in asked if "You are the correctness agent" in a.prompt)
    assert "incorrect: " in checker.prompt
    assert "times the budget" in checker.prompt
    second = [a for a in asked if "You are the reasoning agent" in a.prompt][1]
    assert "keeps state between calls" in second.prompt
    assert "class Model(nn.Module)" in second.prompt


@pytest.mark.slow
@pytest.mark.alone  # its timing must count
def test_the_report_shows_each_step_and_its_cost(run: tuple[Path, RunSummary, list[Asked]]) -> None:
    folder, summary, asked = run
    report = build_report(Archive(folder / "archive.db"), summary.run_id)
    outcomes = [f"{r.role}: {r.outcome}" for r in report.exchanges]
    for wanted in (
        "synthesis: unusable: no fenced code block", "synthesis: #1 build-failed", "compile: #2 incorrect",
        "correctness: #3 refused", "synthesis: #4 correct", "orchestrator: stop: it works",
    ):  # fmt: skip
        assert any(text.startswith(wanted) for text in outcomes), (wanted, outcomes)
    assert all(r.usd is not None and r.usd > 0 for r in report.exchanges)
    told = render_markdown(report)
    assert f"--replay {summary.run_id}" in told
    assert "--model openai:scripted" in told
    assert f"{len(asked)} exchanges" in told


@pytest.mark.slow
@pytest.mark.alone  # its timing must count
def test_the_run_is_replayed_without_judge_model_or_key(run: tuple[Path, RunSummary, list[Asked]]) -> None:
    folder, summary, _ = run
    again = optimize_task(
        str(SOFTMAX), config=config(folder, "http://127.0.0.1:9/v1"), overrides=SMALL, replay=summary.run_id
    )
    assert (again.fault, again.status, again.evaluations) == ("", summary.status, summary.evaluations)
    assert again.best is not None
    assert summary.best is not None
    assert again.best.candidate_id == summary.best.candidate_id
