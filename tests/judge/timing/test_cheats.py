"""What stops the cheats of the zoo (`tests/zoo`) in the deployed process, piece by piece: memory that holds what an
earlier call left, inputs used as a notebook, calls counted, requirements that are not stated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from warpsmith.judge.building import Built, build_all
from warpsmith.judge.timing.bench_worker import Stopwatch
from warpsmith.judge.timing.interleaved_rounds import ClocksDisagree, InterleavedRounds
from warpsmith.judge.timing.timed_process import Block, TimedProcess
from warpsmith.judge.timing.zygote import Deployed
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Candidate, Task, Unit
from warpsmith.runtime.tensors import write_tensors
from warpsmith.targets.cpu import CpuTarget
from warpsmith.targets.front_matter import FIRST_LINE
from warpsmith.tasks.load import load_task
from warpsmith.tasks.regions import make_region
from warpsmith.zoo.fixture import FOLDER

ROWS, DIM = 12, 1000  # of the zoo's task


def source(head: str = "", **macros: str) -> str:
    """The zoo's honest softmax with these macros before it."""
    lines = [f"#define {name} {' '.join(text.split())}" for name, text in macros.items()]
    base = (FOLDER / "cpp" / "_softmax.cpp").read_text()
    return "\n".join([FIRST_LINE, *lines, head, base])


@dataclass
class Bench:
    task: Task
    target: CpuTarget
    scratch: Scratch

    def candidate(self, text: str, **fields: Any) -> Candidate:
        region = make_region(self.task.graph, [n.name for n in self.task.graph.nodes])
        unit = Unit(region=region, language="c++", source=text, **fields)
        return Candidate(task_id=self.task.id, target="cpu", units=(unit,))

    def build(self, text: str, **fields: Any) -> Built:
        return build_all([self.candidate(text, **fields)], self.task, self.target)[0]

    def deployed(self, text: str) -> Deployed:
        """As in a candidate's timed process, but here."""
        candidate = self.candidate(text)
        built = build_all([candidate], self.task, self.target)[0]
        assert built.status == "ok", built.reason
        unit = candidate.units[0]
        library = built.libraries["main", unit.code_key].library
        return Deployed(
            self.task.graph, [{"region": unit.region.model_dump(mode="json"), "library": library}]
        )

    def values(self) -> Path:
        path = self.scratch.new("values")
        write_tensors(path, [i.spec for i in self.task.graph.inputs], [torch.randn(ROWS, DIM)])
        return path


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder: Path = tmp_path_factory.mktemp("cheats")
    with Scratch() as scratch:
        task = load_task(str(FOLDER / "tasks" / "softmax.py"), scratch=scratch)
        yield Bench(task, CpuTarget(folder / "cache", threads=2), scratch)


def test_held_out_shapes_cannot_be_dodged_in_secret(bench: Bench) -> None:
    """An assertion that speaks like a stated requirement: stated, the unit is specialised; else it fails."""
    need = "in0_shape[1] % 8 == 0"
    text = source(f'#include "task.h"\nstatic_assert({need}, "requires: {need}");')
    assert bench.build(text).status == "build-failed"
    assert bench.build(source(), requires=(need,)).status == "ok"


# -------------------------------------------------------------- well-behaved when looked at

MARK = 123456.0
RECYCLER = """
  PLACE
  int again = 1;
  for (int64_t r = 0; r < R; r++) again &= kept[r * N] > 0 && kept[r * N] <= 1;
"""
AGAIN = f"for (int64_t i = 0; i < R * N; i++) kept[i] = y[i]; if (again) y[3] = {MARK}f;"


@pytest.mark.parametrize("overwritten", [False, True])
@pytest.mark.parametrize(
    ("before", "place"),
    [({}, "float* kept = y;"), ({"WORKSPACE_BYTES": "48000"}, "float* kept = (float*)workspace;")],
)
def test_what_the_last_call_left_is_gone(
    bench: Bench, before: dict[str, str], place: str, overwritten: bool
) -> None:
    """A kernel that finds its last results in recycled memory may leave most of them as they are. This one says
    so when it finds them; it does find them where nothing overwrites the memory.
    """
    text = source(FIRST=RECYCLER.replace("PLACE", place), LAST=AGAIN, **before)
    callee: Any = bench.deployed(text)
    if not overwritten:
        callee.blocks, callee.owned = (), lambda result: []
    watch = Stopwatch(bench.task.graph, callee, None, callee.blocks)
    watch.prepare(str(bench.values()), 1)
    found = False
    for seed in range(6):
        watch.time(1, False, seed, True)
        found |= watch.result[0][0, 3].item() == MARK
    if not overwritten and not found:
        pytest.skip("the allocator happened to hand out other memory")
    assert found is not overwritten


def test_an_input_used_as_notebook_is_seen(bench: Bench) -> None:
    callee = bench.deployed(source(LAST="((float*)x)[R * N - 1] += 1;"))
    watch = Stopwatch(bench.task.graph, callee, None, callee.blocks)
    watch.prepare(str(bench.values()), 0)
    watch.time(2, False, 1, True)
    assert watch.spoilt_input() == bench.task.graph.inputs[0].name
    honest = bench.deployed(source())
    watch = Stopwatch(bench.task.graph, honest, None, honest.blocks)
    watch.prepare(str(bench.values()), 1)
    watch.time(3, False, 1, True)
    assert watch.spoilt_input() == ""


class Lengths(InterleavedRounds):
    """Notes how many calls a sampled block had."""

    def sample(self, process: TimedProcess) -> Any:
        return self._last[process.name][2]


class Patient:
    """A process that answers at once."""

    name, expected, quiet = "candidate", 1e-5, True

    def prepare(self, values: Path, warmup: int, alone: bool = True) -> float:
        return 0.0

    def settle(self) -> None: ...

    def block(self, n: int, evictions: int, seed: int) -> Block:
        return Block((10,) * n, 0, 10 * n)


def test_counting_calls_does_not_tell_which_is_checked() -> None:
    """Whoever works only in the last calls of a block is sampled in the others nearly always."""
    process: Any = Patient()
    seen: list[int] = []
    for _ in range(200):
        session = Lengths([process], [Path("values")], (), lambda stem: Path(stem), cold=False)
        session.run(4, [40], checks=1)
        seen += session.samples  # type: ignore[arg-type]
        assert all(1 <= len(b.ns) <= 40 for b in session.blocks["candidate"])
    assert len(seen) == 200
    assert sum(n < 37 for n in seen) > 150
    assert len(set(seen)) > 30


@pytest.mark.parametrize(
    ("gap", "cold", "caught"), [(8_000_000, True, False), (200_000, True, True), (200_000, False, False)]
)
def test_a_flush_that_is_left_out_is_seen(gap: int, cold: bool, caught: bool) -> None:
    """By the supervisor's clock: what the process says of the time between its calls does not count."""
    mine, other = Patient(), Patient()
    other.name = "eager"
    session = InterleavedRounds([mine, other], [Path("values")], (), lambda stem: Path(stem), cold=cold)  # type: ignore[list-item]
    session.blocks = {
        "candidate": [Block((50_000,) * 4, 32_000_000, 4 * (50_000 + gap))] * 3,
        "eager": [Block((50_000,) * 4, 32_000_000, 4 * 8_050_000)] * 3,
    }
    if caught:
        with pytest.raises(ClocksDisagree, match="leaves out what makes them comparable"):
            session.agree()
    else:
        session.agree()


class OnGpu(Patient):
    """The host needs 300 µs between calls, an eviction takes 60 µs, if it is done."""

    def __init__(self, name: str, evicts: bool) -> None:
        self.name, self.evicts = name, evicts

    def block(self, n: int, evictions: int, seed: int) -> Block:
        return Block((50_000,) * n, 0, n * (350_000 + 60_000 * evictions * self.evicts))


@pytest.mark.parametrize(
    ("evicts", "audit", "caught"), [(False, 24, True), (True, 24, False), (False, 0, False)]
)
def test_an_audit_shows_an_eviction_too_short_to_be_missed(evicts: bool, audit: int, caught: bool) -> None:
    mine, other = OnGpu("candidate", evicts), OnGpu("eager", True)
    session = Lengths([mine, other], [Path("values")], (), lambda stem: Path(stem), cold=True, audit=audit)  # type: ignore[list-item]
    session.run(6, [5, 5], checks=2)
    assert set(session.audits) == ({"candidate", "eager"} if audit else set())
    assert all(len(b) == 6 for b in session.blocks.values())
    if caught:
        with pytest.raises(ClocksDisagree, match="leaves out what makes them comparable"):
            session._check_gaps()
    else:
        session._check_gaps()
