"""What an author is told: exemplars that are sound, lessons of before and of this run, and nothing when switched off."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from warpsmith.agents.llm.retrieval import Retrieval
from warpsmith.archive import Archive, export_jsonl, import_jsonl
from warpsmith.archive.store import now
from warpsmith.knowledge.archive_retrieval import ArchiveRetrieval
from warpsmith.knowledge.exemplars import alike, exemplars
from warpsmith.records import Admission, Candidate, Region

# The archive's tests have hand-made records: taken from their file, since every folder's conftest has that name.
records_path = Path(__file__).parents[1] / "archive" / "conftest.py"
Maker = runpy.run_path(str(records_path))["Maker"]

SOFTMAX = "_softmax.default(i0,-1,False) | float32 contiguous [p2,p3] | t0:float32 contiguous [p2,p3]"
SCALED = "mul.Tensor(i0,2);_softmax.default(t0,-1,False) | float32 contiguous [p2,p3] | t1:float32 contiguous [p2,p3]"
MATMUL = "mm.default(i0,i1) | float32 contiguous [p3,p3],float32 contiguous [p3,p3] | t0:float32 contiguous [p3,p3]"
UNDECLARED = "build-failed: error: line {}: ‘{}’ was not declared in this scope"


class Kept:
    """An archive with a run, and short ways to put results into it."""

    def __init__(self, path: Path) -> None:
        self.make, self.archive = Maker(), Archive(path)
        self.archive.begin_run("run-1", self.make.task, "cpu", 0, {}, self.make.environment)

    def ok(self, n: int, signature: str = SOFTMAX, speedup: float = 1.5, won: bool = False) -> Candidate:
        candidate = self.make.candidate(n, signature=signature)
        result = self.make.ok(candidate, speedup, confirmed=won)
        add = self.archive.add_confirmation if won else self.archive.add_result
        add("run-1", candidate, result.model_copy(update={"judged_at": "2024-05-01T10:00:00+00:00"}))
        return candidate

    def failed(self, n: int, signature: str = SOFTMAX) -> None:
        candidate = self.make.candidate(n, signature=signature)
        self.archive.add_result("run-1", candidate, self.make.failed(candidate))

    def shown(self, signature: str = SOFTMAX, k: int = 9, before: str = "", without: str = "") -> list[str]:
        region = Region(nodes=("a",), inputs=("x",), outputs=("a",), signature=signature)
        units = exemplars(self.archive, region, "cpu", k, before, without)
        return [unit.technique for unit in units]


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "a.db")


def test_the_lore_fits_the_authors_port(kept):
    retrieval: Retrieval = ArchiveRetrieval(kept.archive)
    assert retrieval.exemplars(kept.make.candidate().units[0].region, "cpu", 1) == []


def test_exemplars_are_winners_first_then_correct_then_like_ones(kept):
    kept.ok(1, speedup=1.1)
    kept.ok(2, speedup=1.3, won=True)
    kept.ok(3, speedup=1.9)
    kept.ok(4, SCALED, speedup=3.0)
    kept.ok(5, MATMUL, speedup=9.0)
    assert kept.shown() == ["v2", "v3", "v1", "v4"]  # a product has nothing in common with softmax
    assert kept.shown(k=2) == ["v2", "v3"]
    assert kept.shown(k=0) == []
    assert kept.shown(SCALED, k=2) == ["v4", "v2"]
    assert alike(SOFTMAX, SCALED) == 0.5
    assert alike(SOFTMAX, MATMUL) == 0


def test_failures_and_what_failed_later_are_not_shown(kept):
    kept.failed(1)
    kept.ok(2)
    kept.failed(2)
    kept.ok(3)
    assert kept.shown() == ["v3"]


def test_a_quarantined_task_teaches_nothing(kept):
    kept.ok(1)
    assert kept.shown() == ["v1"]
    admission = Admission(admitted=False, mutants={"zeros": "admitted"}, reasons=("zeros pass",))
    kept.archive.note_run("run-1", admission=admission)
    assert kept.shown() == kept.shown(SCALED) == []
    kept.archive.note_run("run-1", admission=Admission(admitted=True, mutants={}))
    assert kept.shown() == ["v1"]


def test_exemplars_of_before_and_of_other_tasks(kept):
    kept.ok(1)
    assert kept.shown(before="2024-05-01T10:00:00.500000+00:00") == ["v1"]
    assert kept.shown(before="2024-05-01T09:59:59.900000+00:00") == []
    assert kept.shown(without=kept.make.task.id) == []
    assert kept.shown(SCALED, without=kept.make.task.id) == []


def test_imported_exemplars_come_last(kept, tmp_path):
    kept.ok(1, speedup=5.0, won=True)
    export_jsonl(kept.archive, tmp_path / "out.jsonl")
    there = Kept(tmp_path / "b.db")
    there.ok(2, speedup=1.1)
    import_jsonl(there.archive, tmp_path / "out.jsonl")
    assert there.shown() == ["v2", "v1"]


def test_passages_begin_with_their_title(kept):
    (first, *_) = ArchiveRetrieval(kept.archive).passages(f"{SOFTMAX} memory", "cpu", 2)
    assert first.splitlines()[0].startswith(("Recipe: softmax", "Online softmax"))


def test_a_lesson_is_told_on_the_same_failure_with_other_names(kept):
    first = ArchiveRetrieval(kept.archive)
    first.learn(UNDECLARED.format(3, "foo"), "cpu", "write ws::splat", "c1")
    second = ArchiveRetrieval(kept.archive)
    (told,) = second.lessons(UNDECLARED.format(77, "bar"), "cpu", 3)
    assert (told.remedy, told.helped, told.candidate) == ("write ws::splat", 1, "c1")
    assert "foo" in told.problem
    assert second.lessons("build-failed: error: expected ‘;’ before ‘x’", "cpu", 3) == []
    assert second.lessons(UNDECLARED.format(77, "bar"), "cuda", 3) == []
    assert second.lessons("", "cpu", 3) == []
    second.note_outcome(told, worked=False)
    second.note_outcome(told, worked=False)
    assert second.lessons(UNDECLARED.format(1, "baz"), "cpu", 3) == []  # it does not help


def test_switched_off_it_tells_and_learns_nothing(kept):
    kept.ok(1)
    ArchiveRetrieval(kept.archive).learn(UNDECLARED.format(1, "x"), "cpu", "remedy", "c1")
    region = kept.make.candidate(signature=SOFTMAX).units[0].region
    off = ArchiveRetrieval(kept.archive, knowledge=False)
    assert off.passages("softmax", "cpu", 3) == off.exemplars(region, "cpu", 3) == []
    assert len(off.lessons(UNDECLARED.format(1, "x"), "cpu", 3)) == 1
    off = ArchiveRetrieval(kept.archive, teach=False)
    assert off.passages("softmax", "cpu", 3)
    assert [u.technique for u in off.exemplars(region, "cpu", 3)] == ["v1"]
    assert off.lessons(UNDECLARED.format(1, "x"), "cpu", 3) == []
    off.learn("timeout: no answer", "cpu", "remedy", "c2")
    assert len(kept.archive.all_lessons()) == 1


def play(retrieval: ArchiveRetrieval, steps: int) -> list[list[tuple[str, int, int]]]:
    """What a run is told at each of its steps; it learns and notes outcomes between."""
    told = []
    for step in range(steps):
        found = retrieval.lessons(UNDECLARED.format(step, "n" * (step + 1)), "cpu", 3)
        told.append([(one.remedy, one.helped, one.failed) for one in found])
        for one in found[:1]:
            retrieval.note_outcome(one, worked=step % 2 == 0)
        retrieval.learn(UNDECLARED.format(step, "m"), "cpu", f"remedy {step % 2}", f"c{step}")
    return told


def test_a_resumed_run_is_told_the_same_and_counts_nothing_twice(kept):
    ArchiveRetrieval(kept.archive).learn(UNDECLARED.format(1, "x"), "cpu", "old remedy", "c0")
    kept.archive.begin_run("run-2", kept.make.task, "cpu", 0, {}, kept.make.environment)
    begin: Callable[[], ArchiveRetrieval] = lambda: ArchiveRetrieval(  # noqa: E731
        kept.archive, "run-2", before=kept.archive.run("run-2").started_at
    )
    first = play(begin(), 5)
    assert first[0] == [("old remedy", 1, 0)]
    assert len(first[4]) == 3
    after = kept.archive.all_lessons()
    assert play(begin(), 7)[:5] == first  # killed after five steps, resumed from the start
    again = {k.lesson.remedy: k.lesson for k in kept.archive.all_lessons()}
    assert sum(one.helped + one.failed for one in again.values()) == 4 + sum(
        k.lesson.helped + k.lesson.failed for k in after
    )  # two more steps: two remedies learnt, two outcomes
    later = ArchiveRetrieval(kept.archive).lessons(UNDECLARED.format(1, "x"), "cpu", 3)
    assert {one.remedy: (one.helped, one.failed) for one in later} == {
        remedy: (one.helped, one.failed) for remedy, one in again.items()
    }


def test_warnings_are_the_most_helpful_lesson_of_each_failure(kept):
    retrieval = ArchiveRetrieval(kept.archive)
    for line in (3, 4):
        retrieval.learn(UNDECLARED.format(line, "x"), "cpu", "+ declare it", f"candidate-{line}")
    retrieval.learn(UNDECLARED.format(5, "y"), "cpu", "+ something else", "candidate-5")
    retrieval.learn("incorrect: guard: out0 was written outside", "cpu", "+ store_n", "candidate-6")
    retrieval.learn("build-failed: nvcc: no", "cuda", "+ other target", "candidate-7")
    assert [lesson.remedy for lesson in retrieval.warnings("cpu", 5)] == ["+ declare it", "+ store_n"]
    assert [lesson.remedy for lesson in retrieval.warnings("cpu", 1)] == ["+ declare it"]
    assert ArchiveRetrieval(kept.archive, teach=False).warnings("cpu", 5) == []


def test_warnings_are_of_before_the_run_and_of_the_run_itself(kept):
    ArchiveRetrieval(kept.archive).learn("build-failed: error: early", "cpu", "+ early", "candidate-1")
    began = now()
    ArchiveRetrieval(kept.archive).learn(
        "build-failed: error: of another run", "cpu", "+ other", "candidate-2"
    )
    retrieval = ArchiveRetrieval(kept.archive, run_id="run-1", before=began)
    retrieval.learn("build-failed: error: mine", "cpu", "+ mine", "candidate-3")
    assert [lesson.remedy for lesson in retrieval.warnings("cpu", 5)] == ["+ early", "+ mine"]
