"""What the stopwatch does to a candidate's outputs when it lets go of them, beside all else that it overwrites."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from warpsmith.judge.building import build_all
from warpsmith.judge.isolation.arena import POISON
from warpsmith.judge.timing.stopwatch import Stopwatch, Tampered, as_bytes, expect_total, median_ns
from warpsmith.judge.timing.zygote import Deployed
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Candidate, Task, Unit
from warpsmith.runtime.tensors import write_tensors
from warpsmith.targets.cpu import CpuTarget
from warpsmith.targets.front_matter import FIRST_LINE
from warpsmith.tasks.load import load_task
from warpsmith.tasks.regions import make_region

TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x), x.view(-1)
def get_inputs():
    return [torch.randn(6, 50)]
def get_init_inputs():
    return []
"""
RELU = f"""{FIRST_LINE}
#include "task.h"
static void unit(const in0_t* x, out0_t* y, void* workspace, void* stream) {{
  for (int64_t i = 0; i < out0_numel; i++) y[i] = x[i] > 0 ? x[i] : 0;
}}
"""


@pytest.fixture
def task(tmp_path: Path) -> Task:
    (tmp_path / "task.py").write_text(TASK)
    with Scratch() as scratch:
        return load_task(str(tmp_path / "task.py"), scratch=scratch)


def deployed(task: Task, cache: Path) -> Deployed:
    """The ReLU is a unit; ATen makes the other output, a view of the input."""
    relu = next(n.name for n in task.graph.nodes if n.op.startswith("aten.relu"))
    unit = Unit(region=make_region(task.graph, [relu]), language="c++", source=RELU)
    candidate = Candidate(task_id=task.id, target="cpu", units=(unit,))
    built = build_all([candidate], task, CpuTarget(cache, threads=1))[0]
    assert built.status == "ok", built.reason
    library = built.libraries["main", unit.code_key].library
    return Deployed(task.graph, [{"region": unit.region.model_dump(mode="json"), "library": library}])


def words(tensor: torch.Tensor) -> set[int]:
    return {int(word) & 0xFFFF for word in as_bytes(tensor).view(torch.int16).unique()}


def test_outputs_of_units_are_spoilt_when_they_are_let_go(task: Task, tmp_path: Path) -> None:
    """With no blocks to overwrite it is the outputs themselves that are spoilt, and no view of an input is."""
    values = tmp_path / "values"
    write_tensors(values, [i.spec for i in task.graph.inputs], [torch.randn(6, 50)])
    watch = Stopwatch(task.graph, deployed(task, tmp_path / "cache"), None)
    assert watch.blocks == ()
    watch.prepare(str(values), 1)
    made, view = watch.result
    assert torch.equal(made, torch.relu(watch.private[0]))
    assert view.data_ptr() == watch.private[0].data_ptr()
    watch.time(1, False, 1, True)
    assert words(made) in [{word} for word in POISON]
    assert watch.spoilt_input() == ""
    assert torch.equal(watch.result[0], torch.relu(watch.private[0])), "what the last call returned stays"


def test_warm_up_calls_once_more_leave_the_values_where_they_are(task: Task, tmp_path: Path) -> None:
    values = tmp_path / "values"
    write_tensors(values, [i.spec for i in task.graph.inputs], [torch.randn(6, 50)])
    callee = deployed(task, tmp_path / "cache")
    watch = Stopwatch(task.graph, callee, None, callee.blocks)
    watch.prepare(str(values), 1)
    watch.time(3, 0, 1, True)
    places = [t.data_ptr() for t in watch.private]
    watch.result = None
    assert watch.again(2)["seconds"] > 0
    assert watch.result is not None
    assert [t.data_ptr() for t in watch.private] == places
    watch.time(2, 0, 2, True)
    assert watch.spoilt_input() == ""


COUNTED = """
import torch
class Model(torch.nn.Module):
    def forward(self, cache, row, place):
        cache[place] = row
        place.add_(1)
        return cache.sum(0)
def get_inputs():
    return [torch.zeros(4, 8), torch.randn(8), torch.tensor([1])]
def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("fresh", [True, False])
def test_a_place_in_a_cache_that_calls_advance_stays_in_it(tmp_path: Path, fresh: bool) -> None:
    (tmp_path / "task.py").write_text(COUNTED)
    with Scratch() as scratch:
        task = load_task(str(tmp_path / "task.py"), scratch=scratch)
    values = tmp_path / "values"
    given = [torch.zeros(4, 8), torch.randn(8), torch.tensor([1])]
    write_tensors(values, [i.spec for i in task.graph.inputs], given)
    watch = Stopwatch(task.graph, Deployed(task.graph, []), None)
    watch.prepare(str(values), 2)
    assert len(watch.time(9, 0, 1, fresh)["ns"]) == 9
    assert watch.private[2].tolist() == [2]


def test_times_that_were_changed_do_not_add_up() -> None:
    expect_total([3, 4], 7)
    with pytest.raises(Tampered, match="times were changed"):
        expect_total([3, 2], 7)


def test_what_a_busy_machine_does_before_a_call_is_not_all_calls() -> None:
    """An honest candidate was charged 32 µs a call: one of five last changes had waited for a processor."""
    assert median_ns([12_000, 160_000, 11_000, 13_000, 12_000]) == 12_000
    assert median_ns([60_000, 160_000, 61_000, 60_000, 12_000]) == 60_000
    assert median_ns([]) == 0


def test_the_last_change_and_other_threads_are_told_for_a_call(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = tmp_path / "values"
    write_tensors(values, [i.spec for i in task.graph.inputs], [torch.randn(6, 50)])
    watch = Stopwatch(task.graph, deployed(task, tmp_path / "cache"), None)
    watch.prepare(str(values), 1)
    spent = iter(range(0, 10_000_000, 1_000_000))
    monkeypatch.setattr("warpsmith.judge.timing.stopwatch.others_ns", lambda: next(spent))
    answer = watch.time(5, 0, 1, True)
    assert answer["others_ns"] == 1_000_000
    assert 0 < answer["late_ns"] < sum(answer["ns"]) + answer["between_ns"]
    assert watch.time(5, 0, 1, False)["others_ns"] == 0
