"""`warpsmith.optimize` for real: a module and a plain function, a compiler, the judge, an archive; only the budget is small."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import torch
from torch import nn

import warpsmith
from warpsmith.archive.store import Archive
from warpsmith.pipeline import lasting
from warpsmith.search.confirmation import explain_noise

pytestmark = [pytest.mark.slow, pytest.mark.alone]


class Gate(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(1.0 + 0.3 * torch.randn(width))

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> dict[str, torch.Tensor]:
        h = x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-5) * self.gain
        return {"out": h * nn.functional.silu(gate), "peak": h.amax(dim=-1)}


@pytest.fixture(autouse=True)
def _few_rounds(few_rounds: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    with few_rounds():
        yield


@pytest.fixture(name="config")
def _config(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, with_peaks: Callable[[Path], Path]
) -> warpsmith.Config:
    """A clean archive a test, and one cache for all."""
    cache = with_peaks(tmp_path_factory.getbasetemp() / "cache")
    return warpsmith.Config.load(
        {"archive": tmp_path / "a.db", "cache": cache, "baselines": ("eager",), "confirm": 1}
    )


def test_a_module_becomes_a_drop_in(config: warpsmith.Config) -> None:
    torch.manual_seed(0)
    module = Gate(128)
    x, gate = torch.randn(32, 128), torch.randn(32, 128)
    fast = warpsmith.optimize(
        module, (x, gate), budget=warpsmith.Budget(evaluations=2, seconds=None), seed=1, config=config
    )
    summary = fast.summary
    assert summary.status != "failed", summary.reason
    assert summary.admitted
    assert summary.stages == {"ok": 2}
    with torch.no_grad():
        got, expected = fast(x, gate), module(x, gate)
        for key in expected:
            torch.testing.assert_close(got[key], expected[key], rtol=1e-5, atol=1e-6)
        assert fast.fast_calls == (1 if summary.status == "win" else 0)
        torch.testing.assert_close(fast(x[:3], gate[:3])["out"], module(x[:3], gate[:3])["out"])
    assert fast.fallbacks >= 1
    assert fast(x, gate)["out"].requires_grad  # gradients come from the original
    assert next(fast.parameters()) is module.gain
    run = Archive(config.archive).run(summary.run_id)
    assert run.summary == summary
    entries = list(Archive(config.archive).run_entries(run.run_id))
    repeated = entries[2:-1]
    assert [e.kind for e in entries] == ["search"] * 2 + ["confirmation"] * (1 + len(repeated))
    assert all(explain_noise(e.result) for e in repeated), "only what noise spoilt is repeated"


def test_the_same_call_takes_what_was_surely_judged_from_the_archive(config: warpsmith.Config) -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 0.125, dim=-1)

    x = torch.randn(32, 100)
    budget = warpsmith.Budget(evaluations=2, seconds=None)
    first = warpsmith.optimize(scaled, (x,), budget=budget, seed=1, config=config).summary
    second = warpsmith.optimize(scaled, (x,), budget=budget, seed=1, config=config).summary
    archive = Archive(config.archive)
    one, two = (archive.run_entries(s.run_id) for s in (first, second))
    last = {e.result.content_key: e.result for e in one}  # a confirmation has the last word
    judged = {key for key, result in last.items() if lasting(result)}
    assert judged <= {e.result.content_key for e in two if e.kind == "reused"}
    assert not judged & {e.result.content_key for e in two if e.kind == "search"}


def test_a_module_that_cannot_be_exported_is_one_line(config: warpsmith.Config) -> None:
    def branching(x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x

    with pytest.raises(warpsmith.WarpsmithError) as error:
        warpsmith.optimize(branching, (torch.randn(4),), config=config)
    assert "\n" not in str(error.value)
