"""Transfer seeds from an archive, and machine code as the search is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsmith.archive import Archive
from warpsmith.machine import describe
from warpsmith.pipeline.machine_code import MachineCode
from warpsmith.pipeline.transfer_seeds import ArchiveTransferSeeds
from warpsmith.records import Build, Candidate, Graph, Region, Task, TaskSource, Tunable, Unit, Variant
from warpsmith.tasks.regions import make_region
from warpsmith.testing import chain_graph, chain_task, scripted_result

NOW, LATER = "2026-01-01T00:00:00+00:00", "2026-02-01T00:00:00+00:00"


def whole(graph: Graph) -> Region:
    return make_region(graph, [n.name for n in graph.nodes])


def task(name: str, ops: tuple[str, ...], shape: tuple[int, ...]) -> Task:
    graph = chain_graph(ops, shape)
    source = TaskSource(kind="memory", path=name)
    return Task(name=name, source=source, variants=(Variant(name="main", overrides={}, graph=graph),))


HERE = task("here", ("aten.exp.default", "aten.neg.default"), (4, 8))
TWIN = task("twin", ("aten.exp.default", "aten.neg.default"), (4, 8))
ALIKE = task("alike", ("aten.exp.default", "aten.tanh.default"), (4, 8))
OTHER = task("other", ("aten.abs.default", "aten.sqrt.default"), (4, 8))


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    opened = Archive(tmp_path / "a.db")
    yield opened
    opened.close()


def keep(
    archive: Archive, task: Task, technique: str, outcome: float | str, at: str = NOW, value: int = 2
) -> Candidate:
    tunable = Tunable(name="UNROLL", domain=(1, 2, 4), value=value)
    unit = Unit(
        region=whole(task.graph), language="c++", source=f"// {technique}", tunables=(tunable,), family="fake",
        technique=technique,
    )  # fmt: skip
    candidate = Candidate(task_id=task.id, target="cpu", units=(unit,))
    here = describe()
    archive.begin_run(task.name, task, "cpu", 1, {}, here)
    result = scripted_result(candidate, outcome).model_copy(update={"environment": here.id, "judged_at": at})
    archive.add_result(task.name, candidate, result)
    return candidate


def transfer_seeds(archive: Archive, **fields: str) -> list[tuple[str, bool]]:
    found = ArchiveTransferSeeds(archive, "cpu", task_id=HERE.id, **fields)(whole(HERE.graph))
    return [(transfer_seed.unit.technique, transfer_seed.alike == 1.0) for transfer_seed in found]


def test_the_same_signature_comes_first_then_like_operations(archive: Archive) -> None:
    keep(archive, ALIKE, "alike", 9.0)
    same = keep(archive, TWIN, "same", 2.0)
    keep(archive, OTHER, "other", 9.0)
    assert transfer_seeds(archive) == [("same", True), ("alike", False)]
    first, second = ArchiveTransferSeeds(archive, "cpu", task_id=HERE.id)(whole(HERE.graph))
    assert (first.candidate_id, first.speedup) == (same.id, 2.0)
    assert 0 < second.alike < 1
    assert ArchiveTransferSeeds(archive, "cuda")(whole(HERE.graph)) == ()


def test_what_was_wrong_or_is_of_this_task_or_came_later_is_no_stone(archive: Archive) -> None:
    keep(archive, HERE, "own", 2.0)
    keep(archive, ALIKE, "wrong", "incorrect")
    assert transfer_seeds(archive) == []
    keep(archive, ALIKE, "late", 2.0, at=LATER)
    assert transfer_seeds(archive, before="2026-01-15T00:00:00+00:00") == []
    assert transfer_seeds(archive) == [("late", False)]


def test_a_technique_at_its_values_is_one_stone(archive: Archive) -> None:
    for outcome in (2.0, 3.0):
        keep(
            archive, task(f"t{outcome}", ("aten.exp.default", "aten.tanh.default"), (4, 8)), "alike", outcome
        )
    keep(archive, ALIKE, "alike", 4.0, value=4)
    assert len(transfer_seeds(archive)) == 1  # of a signature that is only alike, the best of a technique


class Compiler:
    """Makes a library with what the unit says its machine code is; what says nothing does not build."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.built = folder, list[str]()

    def build(self, unit: Unit, graph: Graph, variant: str) -> Build:
        self.built.append(unit.technique)
        path = self.folder / unit.technique
        path.write_text(unit.source)
        return Build(unit_key=unit.code_key, variant=variant, ok=bool(unit.source), library=str(path))


def test_machine_code_is_built_once_and_empty_where_it_does_not_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "warpsmith.pipeline.machine_code.fingerprint", lambda path: Path(path).read_text().split()[0]
    )
    compiler, made = Compiler(tmp_path), chain_task()
    code = MachineCode(compiler, made)  # type: ignore[arg-type]
    units = [
        Unit(region=whole(made.graph), language="c++", source=source, technique=technique)
        for technique, source in (("a", "same 1"), ("b", "same 2"), ("c", "another 3"), ("d", ""))
    ]
    code.prepare(units[:2])
    assert sorted(compiler.built) == ["a", "b"]
    assert [code(u) for u in (*units, *units)] == ["same", "same", "another", ""] * 2
    assert sorted(compiler.built) == ["a", "b", "c", "d"]
