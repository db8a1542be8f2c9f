"""What an archive, unit files and answered folders hold becomes candidates of a bundle."""

from __future__ import annotations

from pathlib import Path

import pytest
from bundle_sample import ALL, ENVIRONMENT, FAST, FASTER, IDEA, TASK, WRONG, result

from warpsmith.archive import Archive
from warpsmith.authoring.folder import ANSWERS, ASKED, Asked
from warpsmith.bundles.gather import Gathered
from warpsmith.bundles.manifest import BundleError
from warpsmith.errors import ArchiveError, UsageError

UNIT = "// warpsmith-unit: 1\n// family: f   technique: mine\n"


@pytest.fixture(name="archive")
def _archive(tmp_path: Path) -> Archive:
    """A run that judged all three, its two correct ones in the order of their speeds upside down."""
    archive = Archive(tmp_path / "a.db")
    archive.begin_run("run-1", TASK, "cpu", 7, {}, ENVIRONMENT)
    for one, outcome in zip(ALL, (2.0, 3.0, "incorrect"), strict=True):
        archive.add_result("run-1", one, result(one, outcome), IDEA if one is FAST else None)
    archive.begin_run("run-2", TASK, "cpu", 7, {"other": 1}, ENVIRONMENT)
    archive.add_result("run-2", WRONG, result(WRONG, "crashed"))
    return archive


def test_of_a_run_come_the_fastest_that_were_correct(archive: Archive) -> None:
    gathered = Gathered("cpu")
    gathered.add_run(archive, "run-1", top=1)
    assert (list(gathered.candidates), gathered.tasks, gathered.hypotheses) == (
        [FASTER.id],
        {TASK.id: TASK},
        {},
    )
    gathered.add_run(archive, "run-1", top=5)
    assert list(gathered.candidates) == [FASTER.id, FAST.id]
    assert gathered.hypotheses == {IDEA.id: IDEA}


def test_of_a_run_without_a_correct_one_comes_what_it_judged(archive: Archive) -> None:
    """A kernel that failed for this machine's sake may be right on another."""
    gathered = Gathered("cpu")
    gathered.add_run(archive, "run-2", top=5)
    assert list(gathered.candidates) == [WRONG.id]


def test_a_candidate_comes_by_its_id(archive: Archive) -> None:
    gathered = Gathered("cpu")
    gathered.add_candidate(archive, WRONG.id)
    assert gathered.candidates == {WRONG.id: WRONG}
    with pytest.raises(BundleError, match="no candidate none"):
        gathered.add_candidate(archive, "none")
    with pytest.raises(ArchiveError, match="no run none"):
        gathered.add_run(archive, "none", 1)


def test_a_bundle_has_one_target(archive: Archive) -> None:
    for add in (lambda g: g.add_run(archive, "run-1", 1), lambda g: g.add_candidate(archive, FAST.id)):
        with pytest.raises(BundleError, match="give --target cpu"):
            add(Gathered("cuda"))


def test_unit_files_become_one_candidate(tmp_path: Path) -> None:
    for name, node in (("a.cpp", "n0"), ("b.cpp", "n1")):
        (tmp_path / name).write_text(f"// warpsmith-unit: 1\n// covers: {node}\n")
    gathered = Gathered("cpu")
    gathered.add_units(TASK, [tmp_path / "a.cpp", tmp_path / "b.cpp"], "me")
    (candidate,) = gathered.candidates.values()
    assert [u.region.nodes for u in candidate.units] == [("n0",), ("n1",)]
    assert (candidate.lineage.operator, candidate.lineage.model) == ("given", "me")
    with pytest.raises(UsageError, match="not a file"):
        gathered.add_units(TASK, [tmp_path / "none.cpp"])


def answered(folder: Path, task: str, target: str = "cuda") -> Path:
    asked = Asked(task=task, name="chain", spec="chain.py", target=target, nodes=("n1",))
    (folder / ANSWERS).mkdir(parents=True)
    (folder / ASKED).write_text(asked.model_dump_json())
    (folder / ANSWERS / "one.cu").write_text(UNIT)
    return folder


def test_answers_for_a_gpu_travel_although_there_is_none_here(tmp_path: Path, archive: Archive) -> None:
    gathered = Gathered("cuda")
    gathered.add_answers(archive, answered(tmp_path / "asked", TASK.id), "me")
    (candidate,) = gathered.candidates.values()
    assert candidate.target == "cuda"
    assert [(u.language, u.region.nodes, u.technique) for u in candidate.units] == [("cuda", ("n1",), "mine")]
    with pytest.raises(BundleError, match="give --target cuda"):
        Gathered("cpu").add_answers(archive, tmp_path / "asked")


def test_answers_need_the_archive_that_they_were_asked_with(tmp_path: Path, archive: Archive) -> None:
    with pytest.raises(BundleError, match="name the archive"):
        Gathered("cuda").add_answers(archive, answered(tmp_path / "asked", "unknown"))
