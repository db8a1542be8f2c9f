"""Kernels for a training step, from a real search on the CPU: both halves run them, and gradients are right. What is right counts as
faster: clocks are not what is tested.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from stated_winners import make_candidate, make_result
from torch import nn
from training_modules import Attention, Mixer, Pixels, draw_mixer, draw_pixels

import warpsmith
from warpsmith.api import ModuleSearch, make_target
from warpsmith.archive.store import Archive
from warpsmith.composition.side_by_side import Blocks
from warpsmith.errors import TaskError
from warpsmith.machine import describe
from warpsmith.progress import SilentObserver
from warpsmith.records import RunSummary
from warpsmith.tasks.memory import task_from_module
from warpsmith.training import finishing
from warpsmith.training.searching import drop_passed_on
from warpsmith.training.step import TrainingStep
from warpsmith.training.trained_module import TrainingModule

pytestmark = pytest.mark.slow
Optimize = Callable[[nn.Module, tuple[Any, ...]], TrainingModule]


def measure_in_favour(
    variants: Mapping[str, Callable[[], Callable[[], Any]]], seconds: float, seed: int
) -> Blocks:
    """The more halves run kernels, the faster: eager 4, torch.compile 3, one half 2, both 1."""
    for variant in variants.values():
        variant()()
    times = {"original": 4.0, "eager": 4.0, "torch.compile": 5.0, "all": 1.0}
    return Blocks({name: [[times.get(name, 2.0)] * 5] * 5 for name in variants})


@contextmanager
def kernels_win(
    few_rounds: Callable[[], AbstractContextManager[None]],
    right_counts_as_faster: Callable[[], AbstractContextManager[None]],
) -> Iterator[None]:
    with few_rounds(), right_counts_as_faster(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(finishing, "measure_side_by_side", measure_in_favour)
        yield


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, with_peaks: Callable[..., Path]) -> warpsmith.Config:
    folder = tmp_path_factory.mktemp("training")
    cache = with_peaks(folder / "cache", 1)
    return warpsmith.Config(archive=folder / "a.db", cache=cache, baselines=("eager",), threads=1)


@pytest.fixture(scope="module")
def optimize(
    config: warpsmith.Config,
    few_rounds: Callable[[], AbstractContextManager[None]],
    right_counts_as_faster: Callable[[], AbstractContextManager[None]],
) -> Optimize:
    def play(module: nn.Module, args: tuple[Any, ...]) -> TrainingModule:
        with kernels_win(few_rounds, right_counts_as_faster):
            budget = warpsmith.Budget(evaluations=2, seconds=None)
            return warpsmith.optimize_training(module, args, time=budget, seed=1, config=config)

    return play


@pytest.fixture(scope="module")
def mixer(optimize: Optimize) -> tuple[Mixer, TrainingModule]:
    torch.manual_seed(0)
    module = Mixer()
    return module, optimize(module, draw_mixer())


def compare_gradients(module: nn.Module, fast: TrainingModule, args: tuple[Any, ...]) -> None:
    step = TrainingStep(args, {}, 3)
    for expected, actual in zip(step.collect(module), step.collect(fast), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def test_both_halves_run_kernels_and_gradients_are_right(mixer: tuple[Mixer, TrainingModule]) -> None:
    module, fast = mixer
    assert fast.result is not None
    assert fast.result.directions == ("forward", "backward"), fast.report()
    compare_gradients(module, fast, draw_mixer())
    graphs = {g.direction: g for g in fast.explain().graphs}
    assert graphs["forward"].kernels
    assert graphs["backward"].kernels
    assert fast.result.parity is not None
    assert fast.result.parity.ok
    assert "of the error budget, against a run in float64" in fast.report()
    assert "over eager for a step, with kernels forward and backward" in fast.report()


def test_the_archive_has_a_winner_for_each_half(
    mixer: tuple[Mixer, TrainingModule], config: warpsmith.Config
) -> None:
    with_wins = {r.summary.task for r in Archive(config.archive).runs() if r.summary.status == "win"}
    assert {"Mixer_forward", "Mixer_backward"} <= with_wins


def test_a_loop_trains_as_the_original_does(mixer: tuple[Mixer, TrainingModule]) -> None:
    module, fast = mixer
    state = copy.deepcopy(module.state_dict())
    losses: dict[str, list[float]] = {}
    for name, trained in (("original", module), ("kernels", fast)):
        module.load_state_dict(state)
        optimizer = torch.optim.SGD(trained.parameters(), 0.1)
        torch.manual_seed(5)
        losses[name] = []
        for _ in range(20):
            loss = trained(*draw_mixer()).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[name].append(float(loss.detach()))
    module.load_state_dict(state)
    assert losses["kernels"] == pytest.approx(losses["original"], rel=1e-5)
    assert losses["kernels"][-1] < losses["kernels"][0]


def test_other_shapes_and_calls_without_gradients_are_answered(mixer: tuple[Mixer, TrainingModule]) -> None:
    module, fast = mixer
    compare_gradients(module, fast, (torch.randn(2, 5, 16),))
    with torch.no_grad():
        (x,) = draw_mixer()
        torch.testing.assert_close(fast(x), module(x))


def test_a_copy_and_a_pickle_keep_what_was_measured(mixer: tuple[Mixer, TrainingModule]) -> None:
    _, fast = mixer
    for again in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        assert again.report() == fast.report()
        compare_gradients(again.original, again, draw_mixer())
        assert all(g.kernels for g in again.explain().graphs)


def test_statistics_of_batch_normalisation_are_updated(optimize: Optimize) -> None:
    torch.manual_seed(0)
    module, args = Pixels(), draw_pixels()
    fast = optimize(module, args)
    assert fast.result is not None
    assert fast.result.directions, fast.report()
    compare_gradients(module, fast, args)
    before = module.norm.running_mean.clone()
    fast(*args).backward()
    assert not torch.equal(module.norm.running_mean, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_kernels_run_in_both_halves_of_attention(optimize: Optimize, dtype: torch.dtype) -> None:
    """Causal, and with half as many heads for keys and values: what was searched is what the step is cut into, and gradients are float64's."""
    torch.manual_seed(0)
    module = Attention(groups=2, is_causal=True).to(dtype)
    args = tuple(t.to(dtype) for t in draw_mixer())
    fast = optimize(module, args)
    assert fast.result is not None
    assert fast.result.directions == ("forward", "backward"), fast.report()
    exact = copy.deepcopy(module).double()
    expected = TrainingStep(tuple(t.double() for t in args), {}, 3).collect(exact)
    step = TrainingStep(args, {}, 3)
    eager, kernels = step.collect(module), step.collect(fast)
    assert all(g.kernels for g in fast.explain().graphs), fast.explain()
    for right, native, actual in zip(expected, eager, kernels, strict=True):
        if dtype == torch.float32:
            torch.testing.assert_close(actual.double(), right, rtol=1e-4, atol=1e-5)
        else:
            error = (actual.double() - right).norm()
            assert error <= 1.5 * (native.double() - right).norm() + 1e-3 * right.norm()


def test_what_draws_random_numbers_is_refused_in_one_line(config: warpsmith.Config) -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    with pytest.raises(TaskError, match="random op") as error:
        warpsmith.optimize_training(module, torch.randn(3, 4), time="1s", config=config)
    assert "\n" not in str(error.value)


WRONG = """\
// warpsmith-unit: 1
// family: pointwise   technique: by-hand
#include "task.h"
static void unit(const in0_t* in0, out0_t* out0, void*, void*) {
  for (int64_t i = 0; i < out0_numel; ++i) out0[i] = in0[i] * FACTORf;
}
"""


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2.0


@pytest.mark.parametrize(("factor", "kept"), [("2.0", ("backward",)), ("2.01", ())])
def test_a_kernel_that_spoils_gradients_does_not_stay(
    config: warpsmith.Config,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    factor: str,
    kept: tuple[str, ...],
) -> None:
    """The step as a whole is compared again, whatever the archive says of a kernel; the right one beside it stays."""
    module, step = Doubled(), TrainingStep((torch.randn(4, 8, requires_grad=True),), {}, 0)
    half = drop_passed_on(step.capture(module)["backward"])
    task = task_from_module(half.module, half.inputs, {}, tmp_path / "exports")
    environment = describe(config.compiler)
    archive = Archive(tmp_path / "forged.db")
    candidate = make_candidate(task, WRONG.replace("FACTOR", factor), [n.name for n in task.graph.nodes])
    archive.begin_run("forged", task, "cpu", 0, {}, environment)
    archive.add_confirmation("forged", candidate, make_result(candidate, environment.id))
    config = config.model_copy(update={"archive": tmp_path / "forged.db"})
    search = ModuleSearch(module, "cpu", make_target("cpu", config), warpsmith.Budget(), config, archive, 0)
    monkeypatch.setattr(finishing, "measure_side_by_side", measure_in_favour)
    monkeypatch.setattr(finishing, "predict_saving", lambda summary: 1.0)
    summary = RunSummary(run_id="forged", task="Doubled", target="cpu", status="win")
    result = finishing.finish(search, step, {"backward": summary}, SilentObserver()).result
    assert result is not None
    assert result.directions == kept
    assert kept or "misses its budget" in result.dropped["backward"]
