"""The secret variant: sizes near the task's own, which its file does not say, and the same task."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from warpsmith.processes.buffers import Scratch
from warpsmith.tasks.client import TaskHost
from warpsmith.tasks.load import load_task
from warpsmith.tasks.secret_variant import SECRET_SHAPE, draw_secret_variant

TASK = """
import torch
ROWS = 640
DIM = 300
KERNEL = 3
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x.unflatten(1, (-1, 4)), dim=2)
def get_inputs():
    return [torch.rand(ROWS, DIM)]
"""


@pytest.fixture
def drawn(tmp_path: Path):  # type: ignore[no-untyped-def]
    def draw(declared: str, seed: int):  # type: ignore[no-untyped-def]
        path = tmp_path / "task.py"
        path.write_text(f"{TASK}VARIANTS = {declared}\n")
        with Scratch() as scratch:
            task = load_task(str(path), scratch=scratch)
            with TaskHost(task.source, scratch=scratch) as host:
                return task, *draw_secret_variant(host, task, np.random.default_rng(seed))

    return draw


def test_sizes_are_near_a_variants_and_nowhere_in_the_file(drawn) -> None:  # type: ignore[no-untyped-def]
    seen = set()
    for seed in range(3):
        task, variant, reason = drawn('{"ragged": {"ROWS": 53}}', seed)
        assert reason == ""
        assert variant.name == SECRET_SHAPE
        rows, columns = variant.graph.inputs[0].spec.shape
        assert 31 <= rows <= 75
        assert rows not in (53, 640)
        assert columns == 300
        assert [n.op for n in variant.graph.nodes] == [n.op for n in task.graph.nodes]
        seen.add(rows)
    assert len(seen) > 1


@pytest.mark.parametrize(("declared", "reason"), [("{}", "no other shapes"), ('{"ragged": {"DIM": 4}}', "")])
def test_a_task_without_one_says_why(drawn, declared: str, reason: str) -> None:  # type: ignore[no-untyped-def]
    _, variant, why = drawn(declared, 0)
    assert variant is None
    assert why
    assert reason in why
