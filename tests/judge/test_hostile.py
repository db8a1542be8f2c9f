"""Hostile kernels are results: each in a round with an honest one, which nothing happens to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from warpsmith.judge.judge import Judge
from warpsmith.records import Candidate, Result
from warpsmith.targets.front_matter import unit_from_source
from warpsmith.tasks.regions import make_region

pytestmark = pytest.mark.slow
TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(64, 96)]
def get_init_inputs():
    return []
"""
UNIT = """// warpsmith-unit: 1
// family: hostile   technique: {name}
#include "task.h"
{before}
static void unit(const in0_t* in0, out0_t* out0, void* workspace, void* stream) {{
    {body}
}}
"""
HONEST = "for (int64_t i = 0; i < in0_numel; i++) out0[i] = in0[i] > 0 ? in0[i] : 0;"
RAW_OPEN = (
    'long r; const char* path = "{path}"; '
    'asm volatile("syscall" : "=a"(r) : "a"(2L), "D"(path), "S"(0102L), "d"(0644L) : "rcx", "r11", "memory");'
)
RAW_FORK = 'for (long r = 0; r >= 0;) asm volatile("syscall" : "=a"(r) : "a"(57L) : "rcx", "r11", "memory");'
HOG = "for (;;) { void* p = calloc(1 << 28, 1); memset(p, 1, 1 << 28); }"
# name → (before the unit, its body, how it may end)
HOSTILE = {
    "hang": ("", "for (volatile long i = 0;; ++i) {}", {"timeout"}),
    "fork": ('extern "C" int fork();', "for (;;) fork();", {"refused", "build-failed"}),
    "raw-fork": ("", RAW_FORK, {"refused", "crashed", "timeout", "incorrect", "build-failed"}),
    "eat-memory": ("#include <stdlib.h>\n#include <string.h>", HOG, {"crashed", "timeout"}),
}


@pytest.fixture(scope="module")
def judge(open_judge: Callable[..., Any]) -> Iterator[Judge]:
    with open_judge(TASK) as judge:
        judge.verifier.limits = replace(
            judge.verifier.limits, timeout=2.0
        )  # what hangs need not do so for long
        yield judge


def candidate(judge: Judge, name: str, before: str, body: str) -> Candidate:
    region = make_region(judge.task.graph, [n.name for n in judge.task.graph.nodes])
    unit = unit_from_source(UNIT.format(name=name, before=before, body=body), region)
    return Candidate(task_id=judge.task.id, target="cpu", units=(unit,))


def test_each_ends_in_a_result_and_the_honest_one_passes(judge: Judge) -> None:
    round = [candidate(judge, name, before, body) for name, (before, body, _) in HOSTILE.items()]
    *hostile, honest = judge.evaluate([*round, candidate(judge, "honest", "", HONEST)])
    assert honest.verdict is not None, honest.reason
    assert honest.verdict.failed is None  # on a busy machine its timing may not count
    for result, (name, (_, _, expected)) in zip(hostile, HOSTILE.items(), strict=True):
        assert result.status in expected, (name, result.reason)
        assert result.reason


def test_nothing_is_written_outside_its_folder(judge: Judge, tmp_path: Path) -> None:
    target = tmp_path / "planted"
    result: Result = next(
        judge.evaluate([candidate(judge, "write", "", RAW_OPEN.format(path=target) + HONEST)])
    )
    confined = result.verdict is None or "landlock" in result.verdict.isolation
    assert result.status != "ok" or confined
    if confined:
        assert not target.exists()
