"""Recorded winners before and after a refactoring: which are chosen, how a checkout finds them, what the page says."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from warpsmith.records import Region, Tunable, Unit

ROOT = Path(__file__).resolve().parents[2]
TASK = """import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)

def get_inputs():
    return [torch.randn(64, 512)]

def get_init_inputs():
    return []
"""


@pytest.fixture(autouse=True)
def _lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "lab"))
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    net = importlib.import_module("emitted_units")
    monkeypatch.setattr(net, "OTHERS", net.OTHERS)  # winners_checkout sets it
    return importlib.import_module("winners_checkout")


def run(*arguments: object, check: bool = True) -> str:
    """The script as it is called, with an absolute path of this checkout's package."""
    command = [sys.executable, str(ROOT / "lab" / "winners_before_after.py"), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=check).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A winner that this checkout wrote and built as both versions."""
    folder = tmp_path_factory.mktemp("winners")
    (folder / "softmax.py").write_text(TASK)
    chosen = ("--target", "cpu", "--file", folder / "softmax.py", "--kind", "softmax/single-pass")
    run("choose", folder, *chosen)
    for version in ("before", "after"):
        run("emit", folder, ROOT, version)
    assert "softmax single-pass: same\n" in run("build", folder, "--before", ROOT, "--after", ROOT)
    return folder


def winner(name: str, kinds: list[tuple[str, str]], size: int) -> Any:
    from winners_chosen import Part, Winner

    task: Any = SimpleNamespace(graph=SimpleNamespace(least_bytes=size))
    return Winner(name, task, tuple(Part(*kind) for kind in kinds), recorded=True)


def test_fewest_and_smallest_winners_hold_every_technique() -> None:
    from winners_chosen import cover

    a, b, c = ("matmul", "wgmma"), ("norm", "split"), ("pooling", "strips")
    winners = [
        winner("one", [a], 1),
        winner("large", [a, b], 9),
        winner("small", [a, b], 5),
        winner("last", [c], 7),
    ]
    kinds = {kind for each in winners for kind in each.kinds}
    assert [w.name for w in cover(winners, kinds)] == ["small", "last"]


def test_recorded_winner_has_its_units_by_name_and_value() -> None:
    from winners_chosen import read_task

    results = ROOT / "results" / "h200"
    row = json.loads((results / "kernelbench.jsonl").read_text().splitlines()[0])
    task, recorded = read_task(row, results / "campaign" / "level1_1.tar.gz")
    assert recorded is not None
    (part,) = recorded.parts
    assert (part.kind, recorded.name, part.nodes) == (("matmul", "wgmma"), "level1/1", ("matmul",))
    assert part.values is not None
    assert part.values["BK"] == 64
    assert task.graph.least_bytes == 3 * 4096 * 4096 * 4


def test_checkout_finds_technique_and_values_under_present_names(
    checkout: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = SimpleNamespace(
        current_technique=lambda family, name: {"flat": "implicit-gemm"}.get(name, name),
        current_values=lambda family, technique, values: {{"TEAMS": "GROUPS"}.get(n, n): v for n, v in values.items()},
    )  # fmt: skip
    monkeypatch.setattr(checkout, "names", table)
    region = Region(nodes=("a",), inputs=("x",), outputs=("a",), signature="")
    tunables = tuple(Tunable(name=n, domain=(1, 2), value=1) for n in ("GROUPS", "NT"))
    unit = Unit(
        region=region, language="cuda", source="", tunables=tunables, family="convolution", technique="new"
    )
    assert checkout.list_names("convolution", "flat") == {"flat", "implicit-gemm"}
    assert checkout.rename_values(unit, "flat", {"TEAMS": 2, "NT": 1}) == {"GROUPS": 2, "NT": 1}


def test_value_that_is_not_offered_any_more_is_said(checkout: ModuleType) -> None:
    region = Region(nodes=("a",), inputs=("x",), outputs=("a",), signature="")
    tunable = Tunable(name="BLOCK", domain=(128, 256), value=128)
    unit = Unit(
        region=region, language="cuda", source="", tunables=(tunable,), family="norm", technique="split"
    )
    notes: list[str] = []
    assert checkout.set_values(unit, {"BLOCK": 512, "GONE": 1}, notes).values == {"BLOCK": 128}
    assert notes == [
        "norm/split-row: BLOCK=512 is not in (128, 256): 128",
        "norm/split-row: there is no tunable GONE",
    ]


def test_unit_that_does_not_build_has_no_same_code(folder: Path) -> None:
    import winners_before_after as tool

    (row,) = tool.read_winners(folder).values()
    assert tool.compare_code(folder, row)["code"] == "same"
    file = folder / "after" / row["file"]
    before = file.read_text()
    emitted = json.loads(before)
    emitted["parts"][0].update(library="", failed="error: expected ';'")
    file.write_text(json.dumps(emitted))
    assert tool.compare_code(folder, row)["code"] == "does not build: error: expected ';'"
    file.write_text(before)


@pytest.mark.alone
@pytest.mark.slow
def test_both_versions_are_judged_and_timed_against_each_other(folder: Path) -> None:
    out = folder / "rows.jsonl"
    run("time", folder, "--out", out, "--cache", folder / "cache", "--limit-s", 100, check=False)
    row = json.loads(out.read_text())
    for version in ("before", "after"):
        assert row[version]["right"]
        assert {"own", "normal", "large"} <= set(row[version]["families"])
    if row["status"] == "ok":  # a busy machine may give no time at all
        assert len(row["ratio"]) == len(row["back"]) == 3
        assert row["before"]["timed_checks"] == 1
    run("table", folder, "--out", out, "--page", folder / "page.md")
    assert "| softmax single-pass |" in (folder / "page.md").read_text()


def test_page_states_losses_and_what_was_not_judged() -> None:
    import winners_before_after as tool

    parts = [{"family": "norm", "technique": "split"}]
    winners = {n: {"name": n, "recorded": True, "parts": parts} for n in ("slow", "wrong", "unseen")}
    judged = {"right": True, "checks": 3, "timed_checks": 1}
    slow = {
        "item": "slow", "status": "ok", "reason": "", "before": judged, "after": judged, "device": "H100",
        "before_us": 10.0, "after_us": 12.5, "ratio": [0.8, 0.75, 0.9],
    }  # fmt: skip
    wrong = {
        "item": "wrong",
        "status": "incorrect",
        "reason": "after: budget",
        "before": judged,
        "after": {"right": False},
    }
    code = {n: {"name": n, "code": c, "hashes": [["a"]]} for n, c in (("slow", "same"), ("wrong", "differs"))}
    text = tool.write_text(winners, {"slow": slow, "wrong": wrong}, code, {"slow": ["a note"]}, "COMMAND")
    assert "1 of 3 have the same machine code, 1 are right" in text
    assert "Losses: slow takes 1.250 times as long." in text
    assert "| slow | norm/split | yes | yes | yes | 8 | 10.0 | 12.5 | 0.750 | 0.800 | 0.900 |" in text
    assert "| wrong | norm/split | yes | no | no |" in text
    assert "| unseen | norm/split | yes | - | not judged |" in text
    assert "- slow: a note." in text
    assert "- wrong: incorrect: after: budget" in text
