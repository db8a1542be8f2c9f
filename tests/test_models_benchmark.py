"""`benchmarks/models.py`: its workloads run, wrong answers and noise are seen, and the page tells all of it."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import warpsmith
from warpsmith.config import Config
from warpsmith.errors import UsageError
from warpsmith.records import Ratio
from warpsmith.whole_model.result import OptimizedModel

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
NAMES = ("llama", "llama-static", "gpt2", "vit", "resnet", "resnet-train", "unet", "mamba")
EQUAL, FASTER, UNSURE = [1.0, 0.98, 1.02], [1.5, 1.4, 1.6], [1.05, 0.9, 1.2]


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def find_workload(name: str) -> Any:
    from models_workloads import workloads

    return next(w for w in workloads() if w.name == name)


def make_session(name: str, folder: Path, with_peaks: Callable[..., Path]) -> Any:
    from models_measuring import Session

    workload = find_workload(name)
    options = argparse.Namespace(size="tiny", device="cpu", time=5.0, measure=0.0, variants=[], seed=0)
    config = Config(archive=folder / "a.db", cache=with_peaks(folder / "cache"), baselines=("eager",))
    return Session(workload, workload.make_model("tiny", "cpu"), options, config, lambda stage: None)


def test_every_workload_is_listed() -> None:
    from models_workloads import workloads

    assert tuple(w.name for w in workloads()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_run_gives_the_same_each_time_and_changes_no_parameter(name: str) -> None:
    from warpsmith.composition.outputs import collect_outputs

    if name == "unet":
        pytest.importorskip("diffusers")
    workload = find_workload(name)
    model = workload.make_model("tiny", "cpu")
    run, compiled_run = (workload.make_run(model, "tiny", compiled) for compiled in (False, True))
    before = [p.detach().clone() for p in model.parameters()]
    first, second = (collect_outputs(r, model, 0)[-1] for r in (run, compiled_run))
    assert first.numel() > 0
    torch.testing.assert_close(first, second)
    assert all(map(torch.equal, before, model.parameters()))
    assert all(p.grad is None for p in model.parameters())


def test_generated_tokens_are_sure_enough_to_compare() -> None:
    """Each names its successor, by a margin that rounding does not reach."""
    workload = find_workload("llama")
    model = workload.make_model("tiny", "cpu")
    tokens = workload.make_run(model, "tiny", False)(model)[0]
    assert torch.equal(tokens[1:], (tokens[:-1] + 1) % model.config.vocab_size)


def test_a_run_that_is_refused_is_measured_all_the_same(
    tmp_path: Path, with_peaks: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise UsageError("no layer of it can be optimized")

    monkeypatch.setattr(warpsmith, "optimize_model", refuse)
    row = make_session("resnet-train", tmp_path, with_peaks).measure()
    assert row["refused"] == "no layer of it can be optimized"
    assert row["status"] in ("refused", "too-busy")
    assert "ResNetEncoder" in row["captured"]
    assert row["parity"]["eager"]["ok"]
    assert row["parity"]["eager"]["loss"] > 0
    assert set(row["gains"]["eager"]) == {"eager again"}


@pytest.mark.parametrize("wrong", [False, True])
def test_a_composed_model_is_compared_and_measured(
    wrong: bool, tmp_path: Path, with_peaks: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = make_session("gpt2", tmp_path, with_peaks)

    def optimize(model: torch.nn.Module, run: Any, *_: Any, **__: Any) -> Any:
        composed = copy.deepcopy(model)
        if wrong:
            with torch.no_grad():
                composed.transformer.ln_f.weight *= 1.01
        ratio = Ratio(baseline="original", median=1.5, low=1.4, high=1.6)
        seen: Any = SimpleNamespace(workload=SimpleNamespace(gain=3.0))
        return OptimizedModel(composed, (), 1.6, ratio, None, seen)

    monkeypatch.setattr(warpsmith, "optimize_model", optimize)
    row = session.measure()
    assert row["parity"]["composed"]["ok"] is not wrong
    assert (row["status"] == "wrong") is wrong
    losses = [row["parity"][name]["loss"] for name in ("eager", "composed")]
    assert (losses[0] == pytest.approx(losses[1], rel=1e-6)) is not wrong
    assert (row["predicted"], row["measured_by_it"]) == (1.6, [1.5, 1.4, 1.6])
    assert "composed" in row["gains"]["eager"]


GAINS = {"eager": {"eager again": EQUAL, "compile": FASTER, "composed": [2.0, 1.9, 2.1]}}
RIGHT = {"composed": {"ok": True, "error": 0.1, "detail": ""}}


@pytest.mark.parametrize(
    ("gains", "more", "status"),
    [
        ({**GAINS, "compile": {"composed": [1.3, 1.2, 1.4]}}, {}, "win"),
        ({**GAINS, "compile": {"composed": [1.1, 0.9, 1.3]}}, {}, "over-eager"),
        ({"eager": {"eager again": EQUAL, "composed": FASTER}}, {}, "over-eager"),
        ({"eager": {"eager again": EQUAL, "composed": UNSURE}}, {}, "no-win"),
        ({"eager": {"eager again": EQUAL}}, {}, "no-win"),
        ({"eager": {"eager again": EQUAL}}, {"refused": "it needs gradients"}, "refused"),
        ({"eager": {"eager again": [1.1, 1.05, 1.15], "composed": FASTER}}, {}, "too-busy"),
        ({"eager": {"eager again": [1.0, 0.5, 2.0], "composed": FASTER}}, {}, "too-busy"),
        (GAINS, {"parity": {"composed": {"ok": False, "error": 3.0, "detail": "output 1"}}}, "wrong"),
    ],
)
def test_the_status_is_what_was_measured(gains: Any, more: Any, status: str) -> None:
    from models_measuring import judge_row

    row = {"gains": gains, "parity": RIGHT, "chaos": "", "predicted": 2.0, **more}
    assert judge_row(row)["status"] == status


def test_the_page_tells_gains_parity_regions_and_what_failed() -> None:
    from models_page import render_page

    region = {"layers": 2, "speedup": FASTER, "predicted": 1.3, "name": "MLP (0 and 1 equal)"}
    row = {
        "item": "llama small", "family": "decoder", "status": "over-eager", "reason": "composed over eager", "seconds": 9.0,
        "class": "Llama", "parameters": 2_000_000, "dtype": "float32", "hardware": "a machine", "threads": 1,
        "date": "2026-01-02", "versions": {"torch": "2"}, "load_before": 0.5, "load_after": 1.5, "optimize_s": 5.0,
        "gains": {"eager": {"eager again": EQUAL, "compile": UNSURE, "composed": FASTER}}, "medians_ms": {"eager": 12.0},
        "parity": {"composed": {"ok": True, "error": 0.25, "detail": "", "tokens": [31, 32], "loss": 2.5}},
        "predicted": 1.4, "promised": 3.0, "not_run": {"max-autotune": "it failed"}, "captured": "the table",
        "regions": [
            {**region, "in_model": True, "reason": ""},
            {**region, "in_model": False, "reason": "the model is not slower without it"},
        ],
    }  # fmt: skip
    failed = {
        "item": "mamba small",
        "status": "timeout",
        "reason": "not done in 9 s: compiling",
        "log": ["last words"],
    }
    page = render_page([row, failed], "python benchmarks/models.py", 1)
    assert "**1 workloads have not been run yet" in page
    assert "**2 workloads: 1 over-eager, 1 timeout.**" in page
    assert "| llama small | over-eager | 12.00 ms | 1.00 [0.98, 1.02] | 1.05 [0.90, 1.20] | — | 1.50 [1.40, 1.60] | — | 1.40 |" in page  # fmt: skip
    assert "reduce-overhead" not in page
    assert "| llama small | composed | 25.0% | 31 of 32 | 2.500000 |" in page
    assert "the model is not slower without it" in page
    assert "max-autotune did not run: it failed" in page
    assert "load, before and after each model: 0.5 to 1.5" in page
    assert "last words" in page
    graphs = {**row, "gains": {"eager": {**row["gains"]["eager"], "reduce-overhead": FASTER}}}
    further = render_page([graphs], "python benchmarks/models.py", 0)
    assert "| 1.00 [0.98, 1.02] | 1.50 [1.40, 1.60] | 1.05 [0.90, 1.20] |" in further
    assert "| eager again | reduce-overhead | compile |" in further


def test_each_call_of_a_compiled_model_is_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    from models_measuring import make_compiled

    steps: list[int] = []
    monkeypatch.setattr(torch.compiler, "cudagraph_mark_step_begin", lambda: steps.append(1))
    model, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
    run = make_compiled(model, "default", lambda compiled: compiled(compiled(x)))
    with torch.compiler.set_stance("force_eager"), torch.no_grad():
        result = run()
    assert len(steps) == 2
    assert torch.equal(result, model(model(x)))
    assert model._compiled_call_impl is None
