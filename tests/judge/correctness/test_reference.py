"""The reference worker beside other runs on the same GPU."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from warpsmith.judge.correctness import reference
from warpsmith.judge.correctness.error_budget import REACH
from warpsmith.judge.correctness.evidence import APPEAL_DRAWS, Case, Evidence
from warpsmith.judge.correctness.input_families import OWN
from warpsmith.judge.timing.input_perturbation import replay_perturbation, write_perturbed
from warpsmith.processes.buffers import Scratch, ValuesFile
from warpsmith.records import (
    Graph,
    GraphInput,
    GraphOutput,
    Node,
    Region,
    Task,
    TaskSource,
    TensorSpec,
    Value,
    Variant,
)  # fmt: skip
from warpsmith.runtime.tensors import open_tensors, write_tensors

SPEC = TensorSpec(shape=(4, 6), dtype="float32", stride=(6, 1))


class Full:
    """A request that finds no memory `times` times."""

    def __init__(self, times: int) -> None:
        self.left, self.asked = times, 0

    def __call__(self, value: int) -> int:
        self.asked += 1
        if self.asked <= self.left:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return value


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> reference.Reference:
    monkeypatch.setattr(reference, "PAUSE_S", 0.0)
    monkeypatch.setattr(reference, "_idle_bytes", lambda: 0)
    made = reference.Reference()
    made._device = "cuda"
    return made


def test_a_request_that_finds_no_memory_waits_for_it(worker: reference.Reference) -> None:
    worker._kept["an", "earlier", "truth"] = []
    assert worker.release_memory_after(Full(2))(value=7) == 7
    assert not worker._kept  # what others may have meanwhile


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_no_longer_than_others_may_take_and_not_on_a_processor(
    worker: reference.Reference, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    monkeypatch.setattr(reference, "PATIENCE_S", -1.0 if device == "cuda" else 60.0)
    worker._device, asked = device, Full(5)
    with pytest.raises(torch.OutOfMemoryError):
        worker.release_memory_after(asked)(value=7)
    assert asked.asked == 1


@pytest.mark.parametrize(
    ("largest", "times"), [(30, 1), (4, 7)], ids=["the first that is tried", "found by bisection"]
)
def test_values_that_were_tried_are_not_written_again(
    monkeypatch: pytest.MonkeyPatch, largest: int, times: int
) -> None:
    written: list[int | None] = []
    made = reference.Reference()
    monkeypatch.setattr(made, "_graph", lambda variant: Graph(inputs=(), nodes=(), outputs=(), tree=""))
    monkeypatch.setattr(made, "_can_judge", lambda *asked: written[-1] is not None and written[-1] <= largest)
    monkeypatch.setattr(reference, "fill", lambda *fields: written.append(fields[-1]))
    made._task = "task"
    made.inputs("main", "huge", 1, "own", "path")
    assert len(written) == times
    made.inputs("main", "huge", 1, "own", "path")  # the exponent is known: written once
    assert len(written) == times + 1
    assert written[-1] == written[-2]


def test_what_a_timed_call_was_given_is_rebuilt_where_the_truth_is(scratch: Scratch) -> None:
    """As the supervisor writes it to a file; the values themselves stay as they are."""
    spec = TensorSpec(shape=(5, 70), dtype="float32", stride=(72, 1))
    graph = Graph(
        inputs=(GraphInput(name="x", target="x", role="input", spec=spec),), nodes=(), outputs=(), tree="0"
    )
    values = scratch.new("values")
    write_tensors(values, [spec], [torch.randn(5, 70)])
    before = values.read_bytes()
    chosen = replay_perturbation(graph.inputs, 3, 4)
    (there,) = reference.Reference()._values(graph, str(values), chosen).values()
    here = open_tensors(write_perturbed(values, graph.inputs, chosen, scratch.new("given")), [spec])[0]
    assert torch.equal(there, here)
    assert values.read_bytes() == before
    assert not torch.equal(there, open_tensors(values, [spec])[0])


def test_rows_of_integers_are_rebuilt_there_too(scratch: Scratch) -> None:
    specs = [
        TensorSpec(shape=(9, 2), dtype="int64", stride=(2, 1)),
        TensorSpec(shape=(9,), dtype="int64", stride=(1,)),
    ]
    inputs = tuple(
        GraphInput(name=n, target=n, role="input", spec=s) for n, s in zip("ij", specs, strict=True)
    )
    graph, values = Graph(inputs=inputs, nodes=(), outputs=(), tree="0"), scratch.new("values")
    write_tensors(values, specs, [torch.randperm(18).reshape(9, 2), torch.arange(9)])
    chosen = replay_perturbation(inputs, 3, 4)
    there = list(reference.Reference()._values(graph, str(values), chosen).values())
    here = open_tensors(write_perturbed(values, inputs, chosen, scratch.new("given")), specs)
    assert all(torch.equal(a, b) for a, b in zip(there, here, strict=True))
    assert torch.equal(there[1], torch.arange(9))  # sorted


def test_an_update_in_place_is_profiled_as_it_is_deployed_on_a_copy(
    monkeypatch: pytest.MonkeyPatch, scratch: Scratch
) -> None:
    specs = [
        SPEC,
        TensorSpec(shape=(1,), dtype="int64", stride=(1,)),
        TensorSpec(shape=(6,), dtype="float32", stride=(1,)),
    ]
    inputs = tuple(
        GraphInput(name=n, target=n, role="input", spec=s) for n, s in zip("xir", specs, strict=True)
    )
    args = ({"v": "x"}, [{"v": "i"}], {"v": "r"})
    put = Node(
        name="new", op="aten.index_put.default", args=args, kwargs={}, outputs=(Value(name="new", spec=SPEC),)
    )
    graph = Graph(
        inputs=inputs,
        nodes=(put,),
        outputs=(GraphOutput(value="new", role="input_update", target="x"),),
        tree="",
    )
    values, made, copies = scratch.new("values"), reference.Reference(), []
    write_tensors(values, specs, [torch.zeros(4, 6), torch.tensor([2]), torch.ones(6)])
    before, run_in_place = values.read_bytes(), reference.run_in_place
    monkeypatch.setattr(made, "_graph", lambda variant: graph)
    monkeypatch.setattr(
        reference, "run_in_place", lambda *asked: (copies.append(asked[2]["x"]), run_in_place(*asked))
    )
    assert made.profile_nodes("main", str(values))["microseconds"].keys() == {"new"}
    assert torch.equal(copies[0][2], torch.ones(6))
    assert values.read_bytes() == before


class Asked:
    """Workers that answer for a GPU, and what they were asked."""

    device = "cuda"

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def materialise(self, variant: str, seed: int, path: Path) -> None:
        specs = [i.spec for i in two_steps().graph.inputs]
        write_tensors(path, specs, [torch.randn(s.shape) for s in specs])

    def call(self, op: str, timeout: float, **fields: Any) -> dict[str, Any]:
        self.requests.append({"op": op, **fields})
        if op == "inputs":
            return {}
        if op == "agrees":
            return {"agrees": True, "worst": 0.5, "ulp": 1.0}
        if fields["stem"]:
            specs = [two_steps().graph.specs["a"]]
            write_tensors(Path(f"{fields['stem']}.inputs"), specs, [torch.ones(s.shape) for s in specs])
        return {"finite": True, "draws": [2], "exact": [False], "error_budgets": [None]}


def two_steps() -> Task:
    def relu(name: str, of: str) -> Node:
        value = Value(name=name, spec=SPEC)
        return Node(name=name, op="aten.relu.default", args=({"v": of},), kwargs={}, outputs=(value,))

    other = GraphInput(name="w", target="w", role="param", spec=SPEC)
    given = GraphInput(name="x", target="x", role="input", spec=SPEC)
    graph = Graph(
        inputs=(other, given), nodes=(relu("a", "x"), relu("b", "a")),
        outputs=(GraphOutput(value="b"),), tree="0",
    )  # fmt: skip
    variant = Variant(name="main", overrides={}, graph=graph)
    return Task(name="two", source=TaskSource(kind="kernelbench", path="two.py"), variants=(variant,))


@pytest.mark.parametrize(("node", "reads", "own"), [("a", "x", False), ("b", "a", True)])
def test_inputs_that_nobody_makes_are_read_where_they_are(
    scratch: Scratch, node: str, reads: str, own: bool
) -> None:
    workers, task = Asked(), two_steps()
    evidence = Evidence(task, workers, scratch, 1, 1 << 30)  # type: ignore[arg-type]
    case = Case("main", OWN, 7)
    region = Region(nodes=(node,), inputs=(reads,), outputs=(node,), signature="relu")
    expected = evidence.region(case, region)
    whole = ValuesFile(evidence.values(case), [SPEC, SPEC]).array(1)
    wanted = np.ones(SPEC.shape, np.float32) if own else whole
    assert np.array_equal(expected.inputs[0].view(np.float32).reshape(SPEC.shape), wanted)
    assert np.array_equal(expected.float_inputs[0], wanted)
    assert bool(workers.requests[-1]["stem"]) is own
    held = scratch.new("made")
    assert expected.agree([np.zeros(SPEC.nbytes, np.uint8)], held) == (0.5, 1.0)
    assert workers.requests[-1]["outputs"] == str(held)  # not copied once more
    assert expected.agree([np.zeros(SPEC.nbytes, np.uint8)]) == (0.5, 1.0)
    assert workers.requests[-1]["outputs"] != str(held)
    assert expected.more is not None
    expected.more()
    appeal = workers.requests[-1]
    assert (appeal["op"], appeal["least"], appeal["reach"]) == ("expected", APPEAL_DRAWS, REACH)


def test_a_family_is_scaled_by_own_values_that_are_there(scratch: Scratch) -> None:
    workers = Asked()
    evidence = Evidence(two_steps(), workers, scratch, 1, 1 << 30)  # type: ignore[arg-type]
    own = evidence.values(Case("main", OWN, 7))
    evidence.values(Case("main", "normal", 9, 7))
    assert workers.requests[-1]["own"] == str(own)
    evidence.values(Case("main", "normal", 9))
    assert workers.requests[-1]["own"] not in ("", str(own))


def whole_request(worker: reference.Reference, scratch: Scratch) -> dict[str, Any]:
    """A task opened on a processor, and a request for the truth of its second step."""
    task, file = two_steps(), scratch.new("task")
    file.write_text(task.model_dump_json())
    worker.open(str(file), 1)
    values = scratch.new("values")
    write_tensors(values, [SPEC, SPEC], [torch.randn(SPEC.shape), torch.randn(SPEC.shape)])
    region = Region(nodes=("b",), inputs=("a",), outputs=("b",), signature="relu")
    return {
        "variant": "main", "values": str(values), "stem": str(scratch.new("expected")), "seed": 3,
        "region": region.model_dump(mode="json"), "family": OWN,
    }  # fmt: skip


@pytest.mark.parametrize("request_name", ["truth", "compute_truth"])
def test_a_truth_that_found_no_memory_after_its_inputs_were_written_is_had_again(
    worker: reference.Reference, scratch: Scratch, monkeypatch: pytest.MonkeyPatch, request_name: str
) -> None:
    """`<stem>.inputs` lies there from the first try."""
    fields = whole_request(worker, scratch)
    oracle = worker._oracle("main", worker._graph("main"), Region.model_validate(fields["region"]))
    full, truths = Full(1), oracle.truths

    def scarce(*args: Any, **options: Any) -> Any:
        full(0)
        return truths(*args, **options)

    monkeypatch.setattr(oracle, "truths", scarce)

    def handle(**given: Any) -> dict[str, Any]:
        worker._device = "cpu"  # where it computes; only the patience is a GPU's
        try:
            return getattr(worker, request_name)(**given)
        finally:
            worker._device = "cuda"

    worker._device = "cuda"
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    assert worker.release_memory_after(handle)(**fields)["finite"]
    assert full.asked == 2
    inputs = open_tensors(Path(f"{fields['stem']}.inputs"), [SPEC])[0]
    assert torch.equal(inputs, open_tensors(Path(fields["values"]), [SPEC, SPEC])[1].relu())


def test_a_request_that_is_repeated_gives_the_same_files(
    worker: reference.Reference, scratch: Scratch
) -> None:
    """Whoever asked may have lost the answer."""
    fields = whole_request(worker, scratch)
    for name in ("truth", "truth", "compute_truth", "compute_truth"):
        getattr(worker, name)(**fields)
    assert sorted(p.suffix for p in scratch.path.glob("expected-*")) == [
        ".inputs",
        ".native",
        ".noise",
        ".oracle",
    ]


def test_two_threads_that_need_the_same_budgets_ask_for_them_once(scratch: Scratch) -> None:
    workers = Asked()
    evidence = Evidence(two_steps(), workers, scratch, 1, 1 << 30)  # type: ignore[arg-type]
    region = Region(nodes=("b",), inputs=("a",), outputs=("b",), signature="relu")
    expected = evidence.region(Case("main", OWN, 7), region)
    assert expected._fetch is not None
    expected._fetch()
    for kind in ("native", "oracle", "noise"):
        Path(f"{expected.stem}.{kind}").touch()
    inputs = Path(f"{expected.stem}.inputs").stat().st_ino
    expected._fetch()
    assert [r["op"] for r in workers.requests].count("expected") == 1
    assert Path(f"{expected.stem}.inputs").stat().st_ino == inputs


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_the_time_of_an_operation_on_a_gpu_is_without_the_hosts_part() -> None:
    """The host takes 200 us to call what the GPU does in 2."""
    made, numbers = reference.Reference(), torch.ones(1024, device="cuda")
    made._device = "cuda"
    flush = reference.flush_for("cuda", 1)

    def call() -> None:
        time.sleep(200e-6)
        numbers.add_(1)

    assert min(made._nanoseconds(call, None) for _ in range(7)) > 150e3
    assert min(made._nanoseconds(call, flush) for _ in range(7)) < 100e3
