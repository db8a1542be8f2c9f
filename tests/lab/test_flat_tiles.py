"""`lab/flat_tiles.py`: fitting without a GPU."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from warpsmith.kernels.conv.convolution_kinds import ConvolutionKind
from warpsmith.kernels.conv.schedules.implicit_gemm_warp_specialized_schedule import (
    RATES,
    Rates,
    Timed,
    rank_warp_specialized_schedules,
)

PLANE = ConvolutionKind(False, 1, 64, 128, (3, 3), (1, 1), (0, 0), (1, 1))
TILES = rank_warp_specialized_schedules(PLANE, (64, 64, 128, 128), (64, 128, 126, 126))


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "lab"))
    import flat_tiles

    return flat_tiles


def tiles(tool: ModuleType) -> list[Timed]:
    found: list[Timed] = tool.some(sorted(TILES, key=lambda f: f.us), 12)
    return found


def test_some_tiles_are_the_best_of_their_crews(tool: ModuleType) -> None:
    found = tiles(tool)
    schedules = [t.schedule for t in found]
    assert len({(s.mma_tiles_m, s.groups, s.consumer_groups, s.width) for s in schedules}) == len(found) > 5
    assert found[0].us == min(t.us for t in TILES)


def test_rates_come_from_what_tiles_took(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    true = replace(RATES, stored=3.0, a_patch=4000.0, tensor=0.4)
    found = {"plane": [(t.load, t.load.us(true)) for t in tiles(tool)]}
    made = tool.fit(found, 1)

    def off(rates: Rates) -> float:
        return max(abs(load.us(rates) / us - 1) for load, us in found["plane"])

    assert off(made) < off(RATES) / 2
    tool.report(found, made)
    printed = capsys.readouterr().out.splitlines()
    assert "takes 1.00 times the fastest in the median" in printed[-2]
    assert json.loads(printed[-1])["together"] == RATES.together


@pytest.mark.parametrize("text", [None, "no JSON", '{"task": "level1/55"}'])
def test_rows_that_cannot_be_read_are_one_line(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    rows = tmp_path / "rows.jsonl"
    if text is not None:
        rows.write_text(text)
    assert tool.main(["fit", str(rows), "--kernelbench", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
