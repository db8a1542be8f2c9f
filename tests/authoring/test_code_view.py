"""Machine code as authors see it: a real compiler, the parent's beside the child's."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.authoring import regions
from warpsmith.authoring.code_view import view_code
from warpsmith.profile.disassembly import count_stack_accesses, find_hot_loop
from warpsmith.profile.observation import Observation
from warpsmith.records import Candidate, Lineage
from warpsmith.targets.cpu import CpuTarget
from warpsmith.testing import chain_task

OBJDUMP = """
0000000000001000 <unit>:
    1000:\tvmovups (%rdi),%zmm0
    1006:\tmov    %rax,0x8(%rsp)
    100a:\tvaddps %zmm0,%zmm1,%zmm1
    1010:\tvmulps 0x40(%rsp),%zmm1,%zmm1
    1018:\tcmp    %rax,%rcx
    101b:\tjne    1000 <unit>
    101d:\tvaddss %xmm0,%xmm1,%xmm1
    1021:\tjne    101d <unit+0x1d>
    1023:\tret
"""


def test_the_hot_loop_is_the_one_with_the_most_vector_work() -> None:
    loop = find_hot_loop(OBJDUMP)
    assert loop[0].startswith("vmovups")
    assert any(line.startswith("vaddps") for line in loop)
    assert not any(line.startswith("vaddss") for line in loop)
    assert count_stack_accesses(OBJDUMP) == 2
    assert find_hot_loop("") == ()


@pytest.mark.slow
def test_code_is_shown_beside_the_parents(tmp_path: Path) -> None:
    task = chain_task(("aten.exp.default", "aten.neg.default"))
    region = regions.propose_regions(task.graph)[0]
    unit = regions.example(task.graph, region)
    assert unit is not None
    parent = Candidate(task_id=task.id, target="cpu", units=(unit,))
    slower = unit.model_copy(
        update={"source": f"{unit.source}\n// the same", "flags": ("-fno-tree-vectorize",)}
    )
    child = Candidate(task_id=task.id, target="cpu", units=(slower,), lineage=Lineage(parents=(parent.id,)))
    counters = [Observation(observer="ncu", subject=region.id, metrics={"tensor pipe %": 3.0})]
    view = view_code(child, parent, task, CpuTarget(tmp_path), counters)
    (code,) = view.units
    assert view.compared_with == parent.id
    assert code.available, code.reason
    assert code.metrics.keys() >= {"code bytes", "stack accesses in innermost loops"}
    assert code.parent.keys() >= {"code bytes"}
    assert code.hot_loop
    assert code.counters == {"tensor pipe %": 3.0}


def test_what_does_not_build_is_said(tmp_path: Path) -> None:
    task = chain_task(("aten.exp.default", "aten.neg.default"))
    region = regions.propose_regions(task.graph)[0]
    unit = regions.example(task.graph, region)
    assert unit is not None
    broken = unit.model_copy(update={"source": unit.source + "\nthis is no C++\n"})
    view = view_code(
        Candidate(task_id=task.id, target="cpu", units=(broken,)), None, task, CpuTarget(tmp_path)
    )
    assert not view.units[0].available
    assert "does not build" in view.units[0].reason
