"""A plan of measurements: what ends is kept, what hangs is stopped, and a second start goes on."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

PLAN = """
[[queue]]
[[queue.step]]
name = "first"
limit_s = 20
command = 'echo gpu $CUDA_VISIBLE_DEVICES; echo 1 >> $OUT/first.txt'
[[queue.step]]
name = "hangs"
limit_s = 1
command = 'sleep 60 & wait'
[[queue]]
[[queue.step]]
name = "fails"
limit_s = 20
command = 'exit 3'
"""
LAB = Path(__file__).resolve().parents[2] / "lab"


@pytest.fixture
def gpu_round(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(LAB))
    import gpu_round

    return gpu_round


def test_steps_end_are_stopped_and_are_not_run_again(
    gpu_round: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, out, pack = tmp_path / "plan.toml", tmp_path / "out", tmp_path / "pack.tar.gz"
    plan.write_text(PLAN)
    for _ in range(2):
        assert gpu_round.main(["start", str(plan), "--out", str(out), "--gpus", "2"]) == 0
        assert gpu_round.main(["wait", "--out", str(out), "--seconds", "30", "--pack", str(pack)]) == 1
    states = json.loads((out / "steps.json").read_text())
    assert {name: (state["state"], state["code"]) for name, state in states.items()} == {
        "first": ("ended", 0),
        "hangs": ("ended", 124),
        "fails": ("ended", 3),
    }
    assert (out / "first.txt").read_text() == "1\n"
    assert (out / "first.log").read_text() in ("gpu 0\n", "gpu 1\n")
    assert "hangs" in capsys.readouterr().out
    with tarfile.open(pack) as packed:
        assert "out/first.txt" in packed.getnames()


def test_one_gpu_plays_one_queue_after_the_other(gpu_round: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN.replace("sleep 60 & wait", "true"))
    gpu_round.run(gpu_round.read_plan(tmp_path / "plan.toml"), tmp_path, 1)
    states = json.loads((tmp_path / "steps.json").read_text())
    assert {(state["gpu"], state["state"]) for state in states.values()} == {(0, "ended")}


@pytest.mark.parametrize("plan", sorted(LAB.glob("gpu_*.toml")), ids=lambda path: path.stem)
def test_the_plans_name_scripts_that_exist(gpu_round: ModuleType, plan: Path) -> None:
    for step in (step for queue in gpu_round.read_plan(plan) for step in queue):
        for word in step["command"].replace('"', " ").split():
            if word.endswith(".py") and word.startswith(("benchmarks/", "lab/")):
                assert (LAB.parent / word).exists(), word
