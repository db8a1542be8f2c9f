"""Kernels for a range of sizes, from a real search on the CPU: right everywhere, the original where they do not apply."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim

import warpsmith
from warpsmith.dynamic_shapes.dynamic_module import BEING_BUILT, DynamicModule
from warpsmith.dynamic_shapes.measuring import MeasuredPoint, RangeMeter
from warpsmith.dynamic_shapes.preparing import compare_with_oracle
from warpsmith.errors import TaskError, UsageError
from warpsmith.records import Ratio
from warpsmith.runtime.module import OptimizedModule

BATCH = Dim("batch", min=2, max=48)


class Gate(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"out": self.norm(x) * torch.sigmoid(gate) + x}


def draw(rows: int, width: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(rows, width), torch.randn(rows, width)


@pytest.fixture(scope="module", name="searched")
def _searched(
    tmp_path_factory: pytest.TempPathFactory,
    with_peaks: Callable[..., Path],
    few_rounds: Callable[[], AbstractContextManager[None]],
    right_counts_as_faster: Callable[[], AbstractContextManager[None]],
) -> tuple[Gate, DynamicModule]:
    """One search for all tests. What is right counts as faster, as confirmed and as twice as fast: clocks are not what is tested."""
    folder = tmp_path_factory.mktemp("range")

    def compare(
        meter: RangeMeter, ready: dict[str, OptimizedModule], tensors: Sequence[torch.Tensor]
    ) -> dict[str, Ratio]:
        slower = tensors[0].shape[0] == 48
        return {name: ratio_of(0.5 if slower else 2.0) for name in ready}

    torch.manual_seed(0)
    module = Gate(64)
    config = warpsmith.Config(
        archive=folder / "a.db", cache=with_peaks(folder / "cache", 1), baselines=("eager",), threads=1
    )
    with few_rounds(), right_counts_as_faster(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(RangeMeter, "_compare", compare)
        fast = warpsmith.optimize(
            module, draw(16), dynamic_shapes={"x": {0: BATCH}, "gate": {0: BATCH}}, seed=1, config=config,
            budget=warpsmith.Budget(evaluations=2, seconds=None),
        )  # fmt: skip
    assert isinstance(fast, DynamicModule)
    return module, fast


def ratio_of(median: float) -> Ratio:
    return Ratio(baseline="the original", median=median, low=0.9 * median, high=1.1 * median)


def check_same(module: Gate, fast: OptimizedModule, rows: int) -> None:
    x, gate = draw(rows)
    torch.testing.assert_close(fast(x, gate)["out"], module(x, gate)["out"])


pytestmark = pytest.mark.slow


@torch.no_grad()
def test_a_size_that_was_never_seen_runs_kernels_once_they_are_built(
    searched: tuple[Gate, DynamicModule],
) -> None:
    module, fast = searched
    before = fast.fast_calls
    check_same(module, fast, 11)
    assert fast.last_fallback == BEING_BUILT
    fast.prepare(*draw(11))
    check_same(module, fast, 11)
    check_same(module, fast, 16)
    assert fast.fast_calls == before + 2
    assert "kernels are ready for batch=11" in fast.explain()


@torch.no_grad()
@pytest.mark.parametrize(
    ("rows", "width", "reason"),
    [
        (49, 64, "batch is 49, not 2 to 48"),
        (48, 64, "nothing is surely faster than the original at batch=48, the nearest measured sizes"),
    ],
)
def test_the_original_answers_outside_and_where_it_is_faster(
    searched: tuple[Gate, DynamicModule], rows: int, width: int, reason: str
) -> None:
    module, fast = searched
    check_same(module, fast, rows)
    assert fast.last_fallback == reason
    with pytest.raises(TaskError, match=reason):
        fast.prepare(*draw(rows, width))


@torch.no_grad()
def test_a_call_that_differs_in_another_axis_spoils_nothing(searched: tuple[Gate, DynamicModule]) -> None:
    module, fast = searched
    with pytest.raises(RuntimeError):
        fast(*draw(9, 32))
    assert "x is torch.float32[9, 32] on cpu, not torch.float32[9, 64]" in fast.last_fallback
    with pytest.raises(RuntimeError):
        fast(draw(9)[0].double(), draw(9)[1].double())
    fast.prepare(*draw(9))
    before = fast.fast_calls
    check_same(module, fast, 9)
    assert fast.fast_calls == before + 1


def test_gradients_come_from_the_original(searched: tuple[Gate, DynamicModule]) -> None:
    _, fast = searched
    x, gate = draw(13)
    fast(x, gate)["out"].sum().backward()
    assert fast.original.norm.weight.grad is not None
    fast.original.zero_grad()


@torch.no_grad()
def test_a_copy_has_the_kernels_that_were_ready(searched: tuple[Gate, DynamicModule]) -> None:
    module, fast = searched
    fast.prepare(*draw(23))
    for again in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        assert isinstance(again, DynamicModule)
        check_same(module, again, 23)
        assert again.fast_calls == 1
        check_same(module, again, 29)
        assert again.last_fallback == "no kernels were built for these sizes before it was copied or saved"


def test_the_report_tells_of_each_point(searched: tuple[Gate, DynamicModule]) -> None:
    _, fast = searched
    report = fast.report()
    assert "at batch=2: 2.00x" in report
    assert "at batch=48: the original runs (not surely faster, 0.50x" in report
    assert [p.name for p in fast.points][:2] == ["example", "low"]


def test_an_end_at_which_nothing_is_faster_gets_a_search_of_its_own(
    searched: tuple[Gate, DynamicModule],
) -> None:
    _, fast = searched
    assert {len(point.ratios) for point in fast.points} == {2}


@torch.no_grad()
def test_wrong_kernels_are_found_before_they_answer(
    searched: tuple[Gate, DynamicModule], monkeypatch: Any
) -> None:
    module, fast = searched
    run = OptimizedModule.run_kernels

    def spoil(one: OptimizedModule, inputs: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        return tuple(leaf * 1.001 if isinstance(leaf, torch.Tensor) else leaf for leaf in run(one, inputs))

    monkeypatch.setattr(OptimizedModule, "run_kernels", spoil)
    with pytest.raises(TaskError, match="its kernels are wrong at batch=31: budget"):
        fast.prepare(*draw(31))
    check_same(module, fast, 31)
    assert "its kernels are wrong at batch=31" in fast.last_fallback


def test_a_module_that_is_another_graph_at_an_end_is_refused(tmp_path: Path) -> None:
    def reshape(x: torch.Tensor) -> torch.Tensor:
        return x.relu() if x.shape[0] < 4 else x.sigmoid()

    config = warpsmith.Config(archive=tmp_path / "a.db", cache=tmp_path / "cache", baselines=("eager",))
    with pytest.raises(
        TaskError, match=r"the module is another graph.*range: batch 2 to 48; a narrower one may do"
    ):
        warpsmith.optimize(reshape, torch.randn(8, 4), dynamic_shapes={"x": {0: BATCH}}, config=config)
    with pytest.raises(UsageError, match="dynamic_shapes names 'y'"):
        warpsmith.optimize(reshape, torch.randn(8, 4), dynamic_shapes={"y": {0: BATCH}}, config=config)


def test_a_point_chooses_the_candidate_whose_low_end_is_highest() -> None:
    point = MeasuredPoint("low", (2,), (ratio_of(1.5), None, ratio_of(1.7)), ("", "it does not build", ""))
    assert point.choice == 2
    assert MeasuredPoint("low", (2,), (ratio_of(1.05), None), ("", "no")).choice is None


def test_wrong_outputs_are_told_by_the_budget(searched: tuple[Gate, DynamicModule]) -> None:
    _, fast = searched
    x, gate = draw(16)
    values = dict(zip([i.name for i in fast.graph.inputs], fast.gather_inputs([x, gate]), strict=True))
    right = fast.original(x, gate)["out"].detach()
    assert compare_with_oracle(fast.graph, values, [right]) == ""
    assert compare_with_oracle(fast.graph, values, [right * 1.0001]).startswith("budget")
    assert "where [16, 64] is right" in compare_with_oracle(fast.graph, values, [right[:3]])
