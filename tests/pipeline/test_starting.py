"""What a run begins with: kernels that were named, the best that each author wrote before; and tuning one candidate alone."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import scripted_run

from warpsmith.archive.authored import MAX_PER_AUTHOR, list_authored
from warpsmith.archive.store import Archive
from warpsmith.authoring.naming import read_candidates
from warpsmith.config import Config
from warpsmith.errors import UsageError
from warpsmith.machine import describe
from warpsmith.pipeline import Outcome, Run
from warpsmith.pipeline.starting import list_adopted
from warpsmith.pipeline.summary import Ground, facts_of
from warpsmith.pipeline.tuning import best_attempt, tune
from warpsmith.processes.buffers import Scratch
from warpsmith.progress import SilentObserver
from warpsmith.records import Budget, Candidate, Lineage, Unit
from warpsmith.targets.front_matter import unit_from_source
from warpsmith.tasks.regions import make_region
from warpsmith.testing import ScriptedExecutor, chain_task, scripted_result

TASK = chain_task()
SOURCE = """// warpsmith-unit: 1
// family: pointwise   technique: {technique}
// tunable: UNROLL = 1 {{1, 2, 4}}
#include "task.h"
static void unit(const in0_t* in0, out0_t* out0, void* workspace, void* stream) {{ {technique}(UNROLL); }}
"""


def unit(technique: str) -> Unit:
    return unit_from_source(SOURCE.format(technique=technique), make_region(TASK.graph, ["n0", "n1"]))


def candidate(technique: str, author: str) -> Candidate:
    lineage = Lineage(operator="given" if author != "expert" else "seed", model=author)
    return Candidate(task_id=TASK.id, target="cpu", units=(unit(technique),), lineage=lineage)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    opened = Archive(tmp_path / "archive.db")
    yield opened
    opened.close()


def keep(
    archive: Archive, kept: Candidate, outcome: float | str, at: str = "2026-01-01T00:00:00+00:00"
) -> None:
    archive.begin_run(kept.id, TASK, "cpu", 1, {}, describe())
    result = scripted_result(kept, outcome).model_copy(update={"judged_at": at, "environment": describe().id})
    archive.add_result(kept.id, kept, result)


def test_the_best_of_each_author_come_first_and_the_experts_own_are_left_out(archive: Archive) -> None:
    for technique, author, outcome in (
        ("slow", "claude", 1.1), ("fast", "claude", 3.0), ("middle", "claude", 2.0), ("other", "codex", 1.5),
        ("wrong", "codex", "incorrect"), ("built_in", "expert", 4.0),
    ):  # fmt: skip
        keep(archive, candidate(technique, author), outcome)
    authored = list_authored(archive, TASK.id, "cpu", without="expert")
    assert [c.units[0].technique for c in authored] == ["fast", "other", "middle"]
    assert sum(c.lineage.model == "claude" for c in authored) == MAX_PER_AUTHOR
    assert "built_in" in {c.units[0].technique for c in list_authored(archive, TASK.id, "cpu")}
    assert list_authored(archive, TASK.id, "cpu", before="2025-01-01T00:00:00+00:00") == []
    assert list_authored(archive, TASK.id, "cuda") == []


def test_named_kernels_come_first_and_the_setting_keeps_the_others_out(archive: Archive) -> None:
    keep(archive, candidate("archived", "claude"), 2.0)
    named = candidate("named", "me")
    both = list_adopted(archive, TASK.id, "cpu", "", True, False, [named])
    assert [c.units[0].technique for c in both] == ["named", "archived"]
    assert list_adopted(archive, TASK.id, "cpu", "", False, False, [named]) == [named]


def test_a_model_that_writes_begins_with_the_experts_kernels_too(archive: Archive) -> None:
    keep(archive, candidate("built_in", "expert"), 2.0)
    assert list_adopted(archive, TASK.id, "cpu", "", True, False, []) == []
    assert [c.lineage.model for c in list_adopted(archive, TASK.id, "cpu", "", True, True, [])] == ["expert"]


def test_what_was_named_is_read_or_refused_in_one_line(archive: Archive, tmp_path: Path) -> None:
    path = tmp_path / "mine.cpp"
    path.write_text(SOURCE.format(technique="mine"))
    stored = candidate("stored", "claude")
    keep(archive, stored, 2.0)
    read = read_candidates(TASK, "cpu", archive, [str(path), stored.id])
    assert [c.units[0].technique for c in read] == ["mine", "stored"]
    assert read[0].lineage.operator == "given"
    for name, message in (
        ("nothing", "neither a file nor a candidate"),
        (str(tmp_path / "empty"), "no unit file"),
    ):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(UsageError, match=message):
            read_candidates(TASK, "cpu", archive, [name])
    with pytest.raises(UsageError, match="another task"):
        read_candidates(chain_task(("aten.abs.default",)), "cpu", archive, [stored.id])


def play(archive: Archive, folder: Path, start_from: list[Candidate], **settings: object) -> Outcome:
    """A run of the expert; the stub judge's executor says how fast."""
    config = Config(archive=archive.path, cache=folder / "cache", near_limit=1e9, patience=2, **settings)
    with scripted_run.stubs():
        return Run(
            TASK, scripted_run.StubTarget(), Budget(evaluations=30, seconds=None), config, archive, SilentObserver(),
            Scratch(), seed=5, start_from=start_from,
        ).play()  # fmt: skip


def test_a_run_tunes_what_it_was_told_to_begin_with(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        scripted_run,
        "speed",
        lambda c: max((1.0 + u.values.get("UNROLL", 0) for u in c.units if "mine" in u.source), default=1.0),
    )
    begun = candidate("mine", "claude")
    outcome = play(archive, tmp_path, [begun])
    assert outcome.best is not None
    assert outcome.best.candidate.lineage.credit == ("claude", "expert")
    assert outcome.best.speedup == pytest.approx(5.0)
    assert archive.ancestors(outcome.best.candidate.id)[-1].id == begun.id
    assert archive.run(outcome.summary.run_id).config["from"] == [begun.id]
    keep(archive, begun, 2.0)
    again = play(archive, tmp_path, [], authors=True)  # found in the archive, without being named
    assert again.best is not None
    assert "claude" in again.best.candidate.lineage.credit
    alone = play(archive, tmp_path, [], authors=False)
    assert alone.best is None or "claude" not in alone.best.candidate.lineage.credit


def test_one_candidate_is_tuned_alone(archive: Archive) -> None:
    judge = scripted_run.StubJudge()
    ground = Ground(facts_of(judge), judge.limit, (), judge.admission, judge.environment)
    begun = candidate("mine", "claude")
    executor = ScriptedExecutor(lambda c: 1.0 + c.units[0].values["UNROLL"])
    attempts = tune(begun, TASK, ground, executor, Budget(evaluations=10, seconds=None))
    best = best_attempt(attempts)
    assert attempts[0].candidate.id == begun.id
    assert best is not None
    assert best.candidate.units[0].values == {"UNROLL": 4}
    assert best.candidate.lineage.credit == ("claude", "expert")
    assert {a.candidate.units[0].source for a in attempts} == {begun.units[0].source}
