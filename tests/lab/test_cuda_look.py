"""What `lab/cuda_look.py` makes of what it saw, and which cuts `lab/cuda_expert.py` packs; neither needs a GPU."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from warpsmith.processes.buffers import Scratch
from warpsmith.tasks.load import load_task
from warpsmith.tasks.regions import make_region

LAB = Path(__file__).resolve().parents[2] / "lab"
TASK = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(256, 512)

    def forward(self, x):
        return torch.relu(self.linear(x) - 1.0)

def get_inputs():
    return [torch.randn(384, 256)]

def get_init_inputs():
    return []
"""


@pytest.fixture(autouse=True)
def _lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(LAB))


def seen(us: float, error: float, label: str = "matmul/wgmma BK=64") -> dict[str, object]:
    return {"us": us, "error": error, "label": label}


def test_a_fast_unit_that_is_less_exact_does_not_count() -> None:
    from cuda_look import fastest, summary

    found = {
        "task": "level1/1",
        "library": seen(100.0, 1e-6),
        "candidates": [seen(10.0, 3e-4), seen(40.0, 2e-6)],
    }
    assert fastest(found) == seen(40.0, 2e-6)
    assert "100 -> 40 us, 2.50x, error 2e-06 (library 1e-06)" in summary(found)
    found["library"] = seen(100.0, 3e-4)
    assert fastest(found) == seen(10.0, 3e-4)


def test_the_table_has_a_row_for_whatever_came_of_a_task() -> None:
    from cuda_look import table

    rows = [
        {"task": "level2/3", "failed": "cannot be exported"},
        {"task": "level1/12", "library": seen(5.0, 0.0), "candidates": [{"label": "x", "failed": "crashed"}]},
        {
            "task": "level1/2",
            "library": seen(9.0, 1e-7),
            "candidates": [seen(3.0, 1e-7, "a/b C=1 + d/e F=2")],
        },
    ]
    lines = table(rows, "somewhere").splitlines()[-3:]
    assert lines[0] == "| level1/2 | 9 | 3 | 1e-07 | 1e-07 | 0 | a/b + d/e |"
    assert lines[1].startswith("| level1/12 | 5 | - | - |")
    assert "cannot be exported" in lines[2]


def test_a_bundle_has_cuts_that_write_the_product_and_one_that_leaves_it(tmp_path: Path) -> None:
    from cuda_expert import candidates

    file = tmp_path / "task.py"
    file.write_text(TASK)
    with Scratch() as scratch:
        made = [c for c, _ in candidates(load_task(str(file), scratch=scratch), 3)]
    covered = [{n for u in c.units for n in u.region.nodes} for c in made]
    assert "linear" in covered[0]
    assert any("linear" not in nodes for nodes in covered)
    assert len({c.content_key for c in made}) == 3


def test_bad_input_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import cuda_look

    task = tmp_path / "level1" / "1_Own.py"
    task.parent.mkdir()
    task.write_text(TASK)
    monkeypatch.setattr(cuda_look.torch.cuda, "is_available", lambda: False)
    for name, words in (("level1/2", "no task level1/2"), ("level1/1", "no NVIDIA GPU")):
        with pytest.raises(SystemExit) as ended:
            cuda_look.main([str(tmp_path), str(tmp_path / "out.jsonl"), "--task", name])
        assert ended.value.code == 2
        assert words in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "out.jsonl").exists()


def test_each_value_of_each_tunable_is_looked_at_if_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cuda_look

    built = SimpleNamespace(ok=True, library="unit.so", diagnostics=())
    monkeypatch.setattr(cuda_look.CudaTarget, "build", lambda *_: built)
    (tmp_path / "task.py").write_text(TASK.replace("torch.relu(self.linear(x) - 1.0)", "torch.softmax(x, 1)"))
    labels = []
    for values in (False, True):
        _, made = cuda_look.prepare(tmp_path / "task.py", 1, values, [], tmp_path / "builds", "sm_90a")
        labels.append([m["label"] for m in made])
    (first,), (same, *others) = labels
    assert same == first
    by_hand = [LAB / "authored" / "level1_23_Softmax.cu"]
    _, made = cuda_look.prepare(tmp_path / "task.py", 1, False, by_hand, tmp_path / "builds", "sm_90a")
    assert [m["label"] for m in made][1:] == [first]
    assert len({first, *others}) == len(others) + 1 > 3
    changed = [set(o.split(" ")[1].split(",")) - set(first.split(" ")[1].split(",")) for o in others]
    assert all(len(c) == 1 for c in changed)


def test_counters_are_read_of_the_fastest_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import cuda_counters
    from numpy import float32, frombuffer

    from warpsmith.profile.observation import Observation, not_available

    (tmp_path / "task.py").write_text(TASK)
    with Scratch() as scratch:
        graph = load_task(str(tmp_path / "task.py"), scratch=scratch).graph
    region = make_region(graph, [n.name for n in graph.nodes])
    asked: list[list[str]] = []

    def observe(program: list[str]) -> Observation:
        asked.append(program)
        values = frombuffer(Path(program[2]).read_bytes(), float32)
        return Observation(observer="ncu", metrics={"seen": float(values[0])})

    monkeypatch.setattr(
        cuda_counters, "toolkit", lambda: SimpleNamespace(include=tmp_path, libraries=tmp_path)
    )
    monkeypatch.setattr(cuda_counters, "cuda_harness", lambda *_: tmp_path / "program")
    monkeypatch.setattr(cuda_counters.ncu, "observe", observe)
    made = [{"parts": [(region, f"{n}.so")]} for n in range(4)] + [{"parts": [(region, "a"), (region, "b")]}]
    seen: list[dict[str, Any]] = [{"us": 9.0}, {"us": 5.0}, {"failed": "crashed"}, {"us": 7.0}, {"us": 1.0}]
    cuda_counters.count(graph, made, seen, 3, tmp_path, lambda item: torch.full(item.spec.shape, 2.5))
    assert [program[1] for program in asked] == ["1.so", "3.so"]
    assert seen[1]["counters"] == seen[3]["counters"] == {"seen": 2.5}
    assert "single unit" in seen[4]["counters"]
    assert not any("counters" in s for s in (seen[0], seen[2]))
    assert not (tmp_path / "values").exists()
    monkeypatch.setattr(cuda_counters.ncu, "observe", lambda _: not_available("ncu", "no permission"))
    cuda_counters.count(graph, made[:1], seen[:1], 1, tmp_path, lambda item: torch.zeros(item.spec.shape))
    assert seen[0]["counters"] == "no permission"
