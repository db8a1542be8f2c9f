"""Units that misbehave in each way the verifier looks for, built and run for real, with an honest twin that
passes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from warpsmith.codegen.rewrites.rewriting import region_graph
from warpsmith.judge.building import build_all
from warpsmith.judge.correctness.evidence import Case, Evidence
from warpsmith.judge.correctness.verify import Limits, Verification, Verifier
from warpsmith.judge.correctness.workers import Workers
from warpsmith.judge.device.device_lock import DeviceLock
from warpsmith.judge.isolation.cuda_runner import OUT_OF_MEMORY, CudaRunner
from warpsmith.judge.isolation.runner import CandidateRunner
from warpsmith.judge.labels import labels
from warpsmith.judge.timing.balance import processor_ns
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Build, Candidate, Task, TensorSpec, Unit
from warpsmith.targets.cpu import CpuTarget
from warpsmith.tasks.load import load_task
from warpsmith.tasks.regions import make_region

TASK = """
import torch
ROWS = 12
DIM = 1000
VARIANTS = {"ragged": {"ROWS": 5, "DIM": 67}}
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
def get_inputs():
    return [torch.rand(ROWS, DIM)]
def get_init_inputs():
    return []
"""
UNIT = """// warpsmith-unit: 1
#include "task.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
static float low(float v) {
  unsigned b; memcpy(&b, &v, 4); b = (b + 0x8000) & 0xffff0000u; memcpy(&v, &b, 4);
  return v;
}
static void unit(const in0_t* x, out0_t* y, void* workspace, void* stream) {
  const int64_t R = in0_shape[0], N = in0_shape[1];
  for (int64_t r = 0; r < R; r++) {
    const float* a = x + r * N; float* o = y + r * N;
    float m = a[0], s = 0;
    for (int64_t i = 1; i < N; i++) m = a[i] > m ? a[i] : m;
    for (int64_t i = 0; i < N; i++) s += o[i] = expf(a[i] - m);
    for (int64_t i = 0; i < N; i++) o[i] /= s;
  }
  BUG
}
"""


PLACE = "((uintptr_t)x / 64 % 128)"  # another one at each run: buffers move


@dataclass
class Bench:
    task: Task
    target: CpuTarget
    verifier: Verifier
    cases: list[Case]

    def candidate(self, bug: str = "", source: str = UNIT, **fields: object) -> Candidate:
        region = make_region(self.task.graph, [n.name for n in self.task.graph.nodes])
        source = source.replace("BUG", bug)
        unit = Unit(region=region, language="c++", source=source, **fields)  # type: ignore[arg-type]
        return Candidate(task_id=self.task.id, target="cpu", units=(unit,))

    def verify(self, bug: str = "", source: str = UNIT, **fields: object) -> Verification:
        candidate = self.candidate(bug, source, **fields)
        built = build_all([candidate], self.task, self.target)[0]
        assert built.status == "ok", built.reason
        return self.verifier.verify(candidate, built.libraries, self.cases, timed=2)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> CpuTarget:
    """Builds each unit once."""
    return CpuTarget(tmp_path_factory.mktemp("verify") / "cache", threads=2)


@pytest.fixture(scope="module", params=["here", "there"])
def bench(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, target: CpuTarget
) -> Iterator[Bench]:
    """`there`: outputs are compared where the truth is, in the reference worker, as on a GPU."""
    folder: Path = tmp_path_factory.mktemp("verify")
    (folder / "softmax.py").write_text(TASK)
    with Scratch() as scratch:
        task = load_task(str(folder / "softmax.py"), scratch=scratch)
        with Workers(task, scratch, threads=2) as workers:
            workers.device = "cuda" if request.param == "there" else "cpu"
            evidence = Evidence(task, workers, scratch, own_seed=1, capacity=1 << 28)
            limits = Limits(timeout=3.0, memory_bytes=1 << 29, threads=2)
            cases = [Case("main", f, 3) for f in ("own", "normal")]
            cases += [Case("ragged", f, 3) for f in ("normal", "large")]
            yield Bench(task, target, Verifier(task, evidence, scratch, limits), cases)


def test_an_honest_unit_passes(bench: Bench) -> None:
    found = bench.verify()
    assert found.ok, found.reason
    assert [c.family for c in found.checks] == ["own", "normal", "normal", "large"]
    assert all(0 < c.error < 1 for c in found.checks)
    assert found.unit_us
    assert "rlimits" in found.isolation


def test_what_the_supervisor_forgot_is_had_again(bench: Bench) -> None:
    """The worker may still know the truth; the inputs that the unit gets are written anew all the same."""
    evidence = bench.verifier.evidence
    assert bench.verify().ok
    for made in evidence._expected.values():
        made.remove()
    evidence._expected.clear()
    assert bench.verify().ok


@pytest.mark.skipif(not processor_ns(os.getpid()), reason="this kernel keeps no account of threads")
def test_a_unit_that_leaves_one_of_two_threads_idle_is_seen_to(bench: Bench) -> None:
    slow = "for (volatile int64_t i = 0; i < 200000; i = i + 1) {}"  # long enough to be looked at
    found = bench.verify(slow)
    assert found.ok, found.reason
    (balance,) = found.unit_balance.values()
    assert balance == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    ("bug", "rule", "words"),
    [
        ("for (int64_t i = 0; i < R * N; i++) y[i] = 0;", "budget", "all zeros"),
        ("for (int64_t i = 0; i < R * N; i++) y[i] = x[i];", "budget", "it is input 0"),
        ("for (int64_t i = 0; i < R * N; i++) y[i] = low(y[i]);", "budget", "bf16"),
        ("y[R * N - 1] = y[0] * 1.001f;", "budget", "1 of 12000 elements"),
        ("y[7] = NAN;", "non-finite", "1 NaN"),
        ("y[R * N] = 1.0f;", "guard", "past its end"),
        ("((float*)x)[3] = 0.5f;", "input-mutated", "in0"),
        (f"y[5] *= 1.0f + 1e-6f * {PLACE};", "nondeterministic", "first at [0, 5]"),
    ],
)
def test_wrong_bytes_are_named(bench: Bench, bug: str, rule: str, words: str) -> None:
    found = bench.verify(bug)
    assert found.status == "incorrect"
    assert found.checks[-1].rule == rule, found.reason
    assert words in found.reason


def test_unwritten_elements_are_found(bench: Bench) -> None:
    found = bench.verify(source=UNIT.replace("i < N; i++) o[i] /= s", "i < N; i++) if (0) o[i] /= s").replace(
        "s += o[i] = expf", "if (i < N - 3) s += o[i] = expf"))  # fmt: skip
    assert found.checks[-1].rule == "nan-poison"
    assert "36 of 12000" in found.reason
    assert "[0, 997]" in found.reason


def test_a_result_kept_for_replay_is_refused(bench: Bench) -> None:
    bug = (
        "static float* kept = 0; if (!kept) { kept = (float*)calloc(R * N, 4); memcpy(kept, y, 4 * R * N); } "
        "memcpy(y, kept, 4 * R * N);"
    )
    built = build_all([bench.candidate(bug)], bench.task, bench.target)[0]
    assert built.status == "refused"
    assert "keeps state between calls: kept" in built.reason


def test_an_exp_without_the_maximum_fails_on_large_inputs(bench: Bench) -> None:
    found = bench.verify(source=UNIT.replace("expf(a[i] - m)", "expf(a[i])"))
    assert found.checks[-1].family == "large"
    assert found.checks[-1].rule == "non-finite"


def test_a_shape_hard_coded_fails_on_the_ragged_variant(bench: Bench) -> None:
    found = bench.verify("if (N % 8 != 0) y[R * N - 1] = 0;")
    assert found.checks[-1].variant == "ragged"
    assert "tail" in found.reason


def test_declared_atomics_are_held_to_the_budget_only(bench: Bench) -> None:
    wobble = f"y[5] *= 1.0f + 1.2e-7f * ({PLACE} & 1);"
    assert bench.verify(wobble).status == "incorrect"
    assert bench.verify(wobble, atomics=True).ok


@pytest.mark.parametrize(
    ("bug", "status", "words"),
    [
        ("*(volatile int*)16 = 1;", "crashed", "SIGSEGV"),
        ("for (volatile int i = 1; i; ) {}", "timeout", "no answer in 1 s"),
    ],
)
def test_a_unit_that_dies_is_a_value(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, bug: str, status: str, words: str
) -> None:
    monkeypatch.setattr(bench.verifier, "limits", replace(bench.verifier.limits, timeout=1.0))
    found = bench.verify(bug)
    assert found.status == status
    assert words in found.reason


def test_no_room_on_the_device_is_not_the_candidates_fault(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cudaErrorMemoryAllocation in a unit's process, where its buffers were to be placed; and later, in the unit itself."""
    for placed, status in ((False, "error"), (True, "crashed")):
        process = CudaRunner.__new__(CudaRunner)
        process._placed = placed
        monkeypatch.setattr(CudaRunner, "_arena", SimpleNamespace(memory=None, size=3 << 30))
        monkeypatch.setattr(CudaRunner, "close", lambda _: None)

        def refuse(*_: object, process: CudaRunner = process) -> None:
            raise process._explain_status(OUT_OF_MEMORY)

        monkeypatch.setattr(CandidateRunner, "run", refuse)
        found = bench.verify()
        assert found.status == status
    monkeypatch.undo()
    assert bench.verify().ok


TWO_OPERATIONS = """
import torch
VARIANTS = {"ragged": {"ROWS": 5, "DIM": 67}}
ROWS = 12
DIM = 1000
class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.exp(x) - y
def get_inputs():
    return [torch.rand(ROWS, DIM), torch.rand(ROWS, DIM)]
def get_init_inputs():
    return []
"""
OPERATION = """// warpsmith-unit: 1
#include "task.h"
#include <math.h>
static void unit(PARAMETERS, out0_t* o, void* workspace, void* stream) {
  for (int64_t i = 0; i < in0_shape[0] * in0_shape[1]; i++) o[i] = VALUE;
}
"""


def test_units_share_a_runner_where_that_is_asked(
    tmp_path: Path, target: CpuTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is told of them is the same, and a fault of the second names it; on a CPU each library has a process anyway."""
    (tmp_path / "two.py").write_text(TWO_OPERATIONS)
    one, two = "const in0_t* x", "const in0_t* x, const in1_t* y"
    with Scratch() as scratch:
        task = load_task(str(tmp_path / "two.py"), scratch=scratch)
        nodes = [n.name for n in task.graph.nodes]

        def make(value: str) -> Candidate:
            sources = (("expf(x[i])", one, nodes[:1]), (value, two, nodes[1:]))
            units = tuple(
                Unit(
                    region=make_region(task.graph, names), language="c++",
                    source=OPERATION.replace("VALUE", text).replace("PARAMETERS", parameters),
                )
                for text, parameters, names in sources
            )  # fmt: skip
            return Candidate(task_id=task.id, target="cpu", units=units)

        with Workers(task, scratch, threads=2) as workers:
            evidence = Evidence(task, workers, scratch, own_seed=1, capacity=1 << 28)
            verifier = Verifier(task, evidence, scratch, Limits(timeout=3.0, threads=2))
            cases = [Case("main", "own", 3), Case("ragged", "normal", 3)]
            right, wrong = make("x[i] - y[i]"), make("x[i] + y[i]")
            built = build_all([right, wrong], task, target)
            apart = verifier.verify(right, built[0].libraries, cases, timed=2)
            monkeypatch.setattr(verifier, "_share_out", share_one_runner)
            together = verifier.verify(right, built[0].libraries, cases, timed=2)
            failed = verifier.verify(wrong, built[1].libraries, cases, timed=2)
    assert apart.ok
    assert together.ok
    assert [(c.where, c.variant, c.family) for c in together.checks] == [
        (c.where, c.variant, c.family) for c in apart.checks
    ]
    assert set(together.unit_us) == set(apart.unit_us) == {u.region.id for u in right.units}
    assert (failed.status, failed.checks[-1].where) == ("incorrect", wrong.units[1].region.id)


def share_one_runner(
    candidate: Candidate, builds: Mapping[tuple[str, str], Build], variants: Iterable[str]
) -> list[list[tuple[Unit, dict[str, Path]]]]:
    return [[(u, {v: Path(builds[v, u.code_key].library) for v in variants}) for u in candidate.units]]


def test_cuda_units_of_a_candidate_share_a_process_in_screening(bench: Bench) -> None:
    graph = bench.task.graph
    region = make_region(graph, [n.name for n in graph.nodes])
    kernels = [Unit(region=region, language="cuda", source=f"// {i}") for i in range(2)]
    rewrite = region_graph(graph, region, list(graph.nodes))
    library = Unit(region=region, language="aten", source="", technique="x", rewrite=rewrite)
    candidate = Candidate.model_construct(task_id="t", target="cuda", units=(*kernels, library))
    builds = {
        (v, u.code_key): SimpleNamespace(library=f"/{v}") for v in ("main", "ragged") for u in candidate.units
    }
    verifier = Verifier(bench.task, bench.verifier.evidence, bench.verifier.scratch, Limits())

    def share_out() -> list[list[Unit]]:
        loads = verifier._share_out(candidate, builds, ("main", "ragged"))  # type: ignore[arg-type]
        return [[unit for unit, _ in runner] for runner in loads]

    assert share_out() == [[library], [kernels[0]], [kernels[1]]]
    verifier.limits = replace(verifier.limits, one_process=True)
    assert share_out() == [[library], kernels]


class ProbedDevice(DeviceLock):
    """Notes at each turn that is taken whether a lock was held by then."""

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        super().__init__()
        self._lock, self.seen = lock, list[bool]()

    def _probe(self) -> None:
        with ThreadPoolExecutor(1) as pool:
            free = pool.submit(self._lock.acquire, False).result()  # type: ignore[attr-defined]
            pool.submit(self._lock.release) if free else None  # type: ignore[attr-defined]
        self.seen.append(not free)

    @contextmanager
    def hold_shared(self) -> Iterator[None]:
        self._probe()
        with super().hold_shared():
            yield

    @contextmanager
    def hold_exclusive(self) -> Iterator[None]:
        self._probe()
        with super().hold_exclusive():
            yield


def test_the_reference_worker_is_held_before_the_device(bench: Bench) -> None:
    """Another thread that holds the worker waits for the device: whoever held the device and waited for the worker would wait forever."""
    graph = bench.task.graph
    region = make_region(graph, [n.name for n in graph.nodes])
    rewrite = region_graph(graph, region, list(graph.nodes))
    unit = Unit(region=region, language="aten", source="", technique="algebraic-x", rewrite=rewrite)
    device = ProbedDevice(bench.verifier.evidence.lock)
    verifier = Verifier(bench.task, bench.verifier.evidence, bench.verifier.scratch, Limits(), device)
    candidate = Candidate(task_id=bench.task.id, target="cpu", units=(unit,))
    built = build_all([candidate], bench.task, bench.target)[0]
    found = verifier.verify(candidate, built.libraries, bench.cases[:2], timed=2)
    assert found.ok, found.reason
    assert found.unit_us
    assert len(device.seen) == 5  # two runs of each case, and one that is timed
    assert all(device.seen)


def test_requirements_leave_a_variant_out_and_show_in_the_label(bench: Bench) -> None:
    candidate = bench.candidate(requires=("in0_shape[1] % 8 == 0",))
    built = build_all([candidate], bench.task, bench.target)[0]
    assert built.status == "ok"
    found = bench.verifier.verify(candidate, built.libraries, bench.cases)
    assert found.ok
    assert {c.variant for c in found.checks} == {"main"}
    assert labels(candidate, bench.task.graph, None, {}) == (
        "kernel",
        "specialised",
        "deterministic",
        "float32",
    )


def test_requirements_unmet_on_the_main_shapes_fail_the_build(bench: Bench) -> None:
    built = build_all([bench.candidate(requires=("in0_shape[1] % 7 == 0",))], bench.task, bench.target)[0]
    assert built.status == "build-failed"
    assert "in0_shape[1] % 7 == 0" in built.reason


def test_a_forbidden_call_is_refused(bench: Bench) -> None:
    source = UNIT.replace("BUG", 'system("true");')
    built = build_all([bench.candidate(source=source)], bench.task, bench.target)[0]
    assert built.status == "refused"
    assert "system" in built.reason


def test_drawn_rows_cover_about_as_many_elements_as_asked() -> None:
    from warpsmith.judge.correctness.evidence import part
    from warpsmith.judge.sample_rows import draw_rows

    spec = TensorSpec(shape=(1000, 50), dtype="float32", stride=(50, 1))
    drawn = [draw_rows(spec, 5000) for _ in range(20)]
    assert all(stop - start == 100 and start >= 0 and stop <= 1000 for start, stop in drawn)
    assert len({start for start, _ in drawn}) > 1
    assert draw_rows(spec, 10**9) == (0, 1000)
    assert draw_rows(TensorSpec(shape=(), dtype="float32", stride=()), 5) == (0, 1)
    stacked = np.zeros((3, 1000, 50))
    assert part(stacked, slice(*drawn[0]), 1).shape == (3, 100, 50)
