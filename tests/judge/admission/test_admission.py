"""Tasks that can tell right from wrong are admitted; tasks that let a wrong answer pass are quarantined with
the reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from warpsmith.errors import TaskError
from warpsmith.judge.admission.admission import admit, smallest
from warpsmith.judge.correctness.evidence import Case, Evidence
from warpsmith.judge.correctness.mutants import DroppedOp, Tail, _dropping, droppable, mutants, round_mantissa
from warpsmith.judge.correctness.oracle import Oracle
from warpsmith.judge.correctness.plan import ADMISSION
from warpsmith.judge.correctness.rounding import op_name
from warpsmith.judge.correctness.stepping import Stepper
from warpsmith.judge.correctness.workers import Workers
from warpsmith.judge.device.memory import check_memory, live_bytes
from warpsmith.judge.layout import output_names
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Admission, Graph, Task
from warpsmith.tasks.export import export_program, program_graph
from warpsmith.tasks.load import load_task
from warpsmith.tasks.values import torch_dtype

TASK = """
import torch
import torch.nn.functional as F
ROWS = 16
DIM = 96
VARIANTS = {{"ragged": {{"ROWS": 3, "DIM": 37}}}}
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(DIM, DIM)
    def forward(self, x):
        return {body}
def get_inputs():
    return [torch.rand(ROWS, DIM)]
def get_init_inputs():
    return []
"""


def judged(folder: Path, body: str, families: tuple[str, ...] = ADMISSION) -> tuple[Task, Admission]:
    (folder / "task.py").write_text(TASK.format(body=body))
    with Scratch() as scratch:
        task = load_task(str(folder / "task.py"), scratch=scratch)
        with Workers(task, scratch, threads=2) as workers:
            evidence = Evidence(task, workers, scratch, own_seed=1, capacity=1 << 26)
            return task, admit(task, evidence, families, seed=5)


def test_a_mutant_that_was_caught_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product with 1 can be dropped on any family: all are tried for it, but not for the others."""
    asked: list[dict[str, object]] = []
    call = Workers.call

    def watched(self: Workers, method: str, timeout: float, **fields: object) -> dict[str, object]:
        answer = call(self, method, timeout, **fields)
        if method == "mutate":
            asked.append({"known": fields["known"], "tried": set(answer["caught"])})
        return answer

    monkeypatch.setattr(Workers, "call", watched)
    _, found = judged(tmp_path, "F.gelu(self.linear(x)) * 1.0")
    assert found.admitted
    assert [m for m, rule in found.mutants.items() if rule == "equivalent"]
    assert "zeros" in asked[0]["tried"]  # type: ignore[operator]
    assert len(asked) > 3
    for later in asked[1:]:
        assert "zeros" in later["known"]  # type: ignore[operator]
        assert not set(later["known"]) & later["tried"]  # type: ignore[operator, call-overload]


def test_a_fused_linear_is_admitted_and_every_mutant_is_named(tmp_path: Path) -> None:
    task, found = judged(tmp_path, "F.gelu(self.linear(x)) + x")
    assert found.admitted, found.reasons
    assert {"zeros", "constant", "stale replay", "7-bit mantissa", "10-bit mantissa"} <= set(found.mutants)
    assert any(m.startswith("input ") for m in found.mutants)
    dropped = [m for m in found.mutants if m.startswith("dropped")]
    assert any("gelu" in m for m in dropped)
    assert any("linear" in m for m in dropped)
    assert smallest(task).name == "ragged"


@pytest.mark.parametrize(
    ("body", "mutant"),
    [
        ("x - x", "zeros"),
        ("self.linear(x) * 0 + 3", "constant"),
        ("torch.clamp(torch.clamp(x, max=0.0), min=0.0)", "zeros"),
    ],
)
def test_a_task_that_ignores_its_input_is_quarantined(tmp_path: Path, body: str, mutant: str) -> None:
    _, found = judged(tmp_path, body)
    assert not found.admitted
    assert found.mutants[mutant] == "admitted"
    assert any(mutant in reason for reason in found.reasons)


def test_epsilon_of_a_norm_behind_a_table_shows_where_weights_are_tiny(tmp_path: Path) -> None:
    """No tokens make what it is added to tiny: only weights of another scale do."""
    norm = "(lambda h: h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-9))"
    _, found = judged(tmp_path, f"{norm}(self.linear(self.linear.weight[x.argsort(-1)[:, 0]]))")
    assert found.admitted, found.reasons
    assert any(rule.endswith("on faint") for rule in found.mutants.values()), found.mutants


def test_a_task_that_is_nan_on_every_family_is_refused_by_the_outputs_name(tmp_path: Path) -> None:
    with pytest.raises(
        TaskError,
        match=r"^task: the reference gives NaN or inf in log on every input family.*return finite values",
    ):
        judged(tmp_path, "(torch.relu(x), torch.log(-torch.exp(x)))", families=("own", "normal"))


def test_relu_lets_its_input_pass_on_its_own_family_only(tmp_path: Path) -> None:
    """The task's own inputs are U[0, 1): there ReLU is the identity. Sign-mixed inputs save it."""
    _, narrow = judged(tmp_path, "torch.relu(x)", families=("own",))
    assert not narrow.admitted
    assert any(r.startswith("a wrong answer passes: input") for r in narrow.reasons)
    _, full = judged(tmp_path, "torch.relu(x)")
    assert full.admitted, full.reasons


def test_an_op_without_effect_is_an_equivalent_mutant(tmp_path: Path) -> None:
    _, found = judged(tmp_path, "torch.relu(torch.relu(x))")
    assert found.admitted, found.reasons
    assert "equivalent" in found.mutants.values()


def test_an_op_that_only_rounds_is_an_equivalent_mutant(tmp_path: Path) -> None:
    """A resize of one pixel: every value of it is that pixel, up to the rounding of two weights that add up to one."""
    resized = "torch.nn.functional.interpolate(x[:, :, None, None], size=(5, 7), mode='bilinear')"
    _, found = judged(tmp_path, f"torch.relu({resized})")
    assert found.admitted, found.reasons
    (resize,) = (rule for name, rule in found.mutants.items() if "upsample" in name)
    assert resize == "equivalent"


@pytest.mark.parametrize(("function", "only_rounds"), [
    (lambda x: torch.nn.functional.interpolate(x[:, :, None, None], size=(5, 7), mode="bilinear"), True),
    (lambda x: x + 1e-5 * torch.sin(x), False),
    (lambda x: x + 1e-12 * torch.sin(x), False),
    (lambda x: (x + 0.1) - 0.1, False),
    (lambda x: x > 0.5, False),
])  # fmt: skip
def test_only_rounding_is_told_from_what_counts_by_float64(function: Any, only_rounds: bool) -> None:
    """Asked of the last op alone: two that undo each other count each."""

    class Applied(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    x = torch.rand(3, 4, generator=torch.Generator().manual_seed(2))
    graph = program_graph(export_program(Applied(), (x,), {}, ""), "")
    outputs, (item,) = output_names(graph), graph.inputs
    wrong = mutants(graph, outputs, {item.name: x}, {item.name: x.flip(0)}, 1)
    (dropped,) = (m for m in wrong.values() if isinstance(m, DroppedOp))
    assert dropped.only_rounds() == only_rounds


def test_an_argmax_is_exact(tmp_path: Path) -> None:
    _, found = judged(tmp_path, "torch.argmax(x, dim=1)")
    assert found.admitted, found.reasons
    assert found.mutants["zeros"].startswith("exact")


@pytest.mark.parametrize("bits", [7, 10])
def test_truncated_keeps_so_many_bits(bits: int) -> None:
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    off = (round_mantissa(x, bits) - x).abs() / x.abs()
    assert 0.3 * 2.0**-bits < off.max() <= 2.0 ** -(bits + 1) * 1.001
    raw = round_mantissa(x, bits).numpy().view(np.uint32)
    assert not (raw & ((1 << (23 - bits)) - 1)).any()


def test_a_task_too_large_is_told_before_anything_is_allocated(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(TASK.format(body="torch.relu(x) + 1"))
    with Scratch() as scratch:
        task = load_task(str(tmp_path / "task.py"), scratch=scratch)
    assert live_bytes(task.graph) == 2 * 16 * 96 * 4
    check_memory(task)
    with pytest.raises(TaskError, match="GiB are available"):
        check_memory(task, available=1000)


class Deep(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)
        self.norm = torch.nn.BatchNorm1d(6)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(self.first(x))
        return torch.tanh(self.last(self.norm(y)) + y), y


def deep_graph() -> Graph:
    program = export_program(Deep(), (torch.rand(5, 6),), {}, "")
    return program_graph(program, "")


def test_dropping_an_op_runs_only_what_follows_and_changes_no_value() -> None:
    graph = deep_graph()
    outputs, draw = output_names(graph), torch.Generator().manual_seed(1)
    values, others = (
        {i.name: torch.rand(i.spec.shape, generator=draw).to(torch_dtype(i.spec.dtype)) for i in graph.inputs}
        for _ in range(2)
    )
    wrong = mutants(graph, outputs, values, others, 3)
    targets = list(droppable(graph))[:3]
    assert len([name for name in wrong if name.startswith("dropped")]) == len(targets) == 3
    for node in targets:
        whole = Stepper(graph).run(values, outputs, outward=_dropping(node))
        part = wrong[f"dropped {op_name(node)} ({node.name})"]()
        assert all(torch.equal(part[name], whole[name]) for name in outputs)
    assert len(Tail(graph, targets, outputs)._stepper.graph.nodes) < len(graph.nodes)


def test_what_takes_a_dropped_ops_place_lies_as_it_did() -> None:
    """A resize to the same size changes no value; its place in another layout would make the products that follow round otherwise."""

    class Resized(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.interpolate(x.permute(0, 3, 1, 2), size=(5, 5), mode="bilinear")

    x = torch.randn(2, 5, 5, 3)
    graph = program_graph(export_program(Resized(), (x,), {}, "test.py"), "test.py")
    (node,) = (n for n in graph.nodes if "upsample" in n.op)
    given = {i.name: x for i in graph.inputs}
    kept = Stepper(graph).run(given, [node.output.name])[node.output.name]
    dropped = Stepper(graph).run(given, [node.output.name], outward=_dropping(node))[node.output.name]
    assert torch.equal(dropped, kept)
    assert dropped.stride() == kept.stride()
    assert not kept.is_contiguous()


def test_a_counter_of_steps_is_exact_and_takes_no_draws_of_ties() -> None:
    """BatchNorm in training counts its batches: sums of integers do not round."""
    graph = deep_graph()
    oracle = Oracle(graph, output_names(graph))
    integers = [name for name in oracle.outputs if graph.specs[name].dtype == "int64"]
    assert integers
    assert all(oracle.exact[name] for name in integers)
    assert not all(oracle.exact.values())


def test_mutants_for_which_there_is_no_time_are_named(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(TASK.format(body="F.gelu(self.linear(x))"))
    with Scratch() as scratch:
        task = load_task(str(tmp_path / "task.py"), scratch=scratch)
        with Workers(task, scratch, threads=2) as workers:
            evidence = Evidence(task, workers, scratch, own_seed=1, capacity=1 << 26)
            values = str(evidence.values(Case("main", "normal", 1)))
            fields: dict[str, Any] = {
                "variant": "main", "values": values, "others": values, "seed": 1, "dropped": 2, "family": "normal",
                "known": ["constant"],
            }  # fmt: skip
            nothing = workers.call("mutate", 60, **fields, seconds=0.0)
            everything = workers.call("mutate", 60, **fields, seconds=60.0)
    assert nothing["caught"] == {}
    assert set(nothing["untried"]) == set(everything["caught"])
    assert everything["untried"] == []
    assert "constant" not in nothing["untried"]
