"""A verdict on a unit names the device that its target runs on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from warpsmith import api
from warpsmith.config import Config
from warpsmith.records import Candidate, Unit
from warpsmith.testing import chain_graph, chain_region, scripted_result

UNIT = Unit(region=chain_region(chain_graph(), 0, 0), language="cuda", source="//")


@pytest.mark.parametrize(("language", "named"), [("cuda", "Test GPU"), ("c++", "Test CPU")])
def test_a_unit_that_is_judged_on_a_gpu_has_the_gpus_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, language: str, named: str
) -> None:
    def describe(compiler: str | None = None, device: str = "cpu") -> Any:
        return SimpleNamespace(hardware="Test GPU" if device == "cuda" else "Test CPU")

    result = scripted_result(Candidate(task_id="t", target="cuda", units=(UNIT,)), "incorrect")
    monkeypatch.setattr(api, "describe", describe)
    monkeypatch.setattr(api, "make_target", lambda name, config: SimpleNamespace(language=language))
    monkeypatch.setattr(api, "judge_solution", lambda *_, **__: result)
    verdict = api.judge_file(tmp_path / "unit.cu", "task.py", target="cuda", config=Config())
    assert verdict.hardware == named
