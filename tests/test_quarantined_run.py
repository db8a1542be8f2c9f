"""A run of a task on which a wrong answer passes: nothing is judged that could not count, and the wrong answer is named."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from warpsmith.api import optimize_task
from warpsmith.config import Config
from warpsmith.records import Budget

CONSTANT = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1) * 0 + 3
def get_inputs():
    return [torch.rand(64, 128)]
def get_init_inputs():
    return []
"""


@pytest.mark.slow
@pytest.mark.parametrize("screening", ["off", "on"])
def test_search_ends_when_a_wrong_answer_passes(
    tmp_path: Path, with_peaks: Callable[[Path], Path], few_rounds: Callable[[], AbstractContextManager[None]],
    screening: str,
) -> None:  # fmt: skip
    (tmp_path / "constant.py").write_text(CONSTANT)
    cache = with_peaks(tmp_path / "cache")
    config = Config(
        archive=tmp_path / "a.db", cache=cache, baselines=("eager",), screening=screening, confirm=1
    )
    budget = Budget(evaluations=3, seconds=None)
    with few_rounds():
        run = optimize_task(str(tmp_path / "constant.py"), budget=budget, seed=1, config=config)
        assert (run.status, run.admitted, run.evaluations) == ("no-win", False, 0)
        assert run.reason.endswith("so no speedup counts: a wrong answer passes: constant")
        assert (run.best, run.fault) == (None, "")
        again = optimize_task(str(tmp_path / "constant.py"), config=config, replay=run.run_id)
    assert (again.status, again.reason, again.fault) == (run.status, run.reason, "")
    assert (again.evaluations, again.screened) == (0, run.screened)
