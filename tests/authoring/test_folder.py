"""Prompt folders: what `ask` writes, what `tell` takes back, and what an edited folder cannot change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scripted_author_session import unit

from warpsmith.authoring.answers import read_covers
from warpsmith.authoring.author import LocalAuthor
from warpsmith.authoring.folder import collect, expect_free, read_folder, target_of, write_folder
from warpsmith.authoring.jobs import JobRequest, Submission
from warpsmith.authoring.service import AuthoringService
from warpsmith.errors import UsageError
from warpsmith.records import Task


@pytest.fixture
def folder(service: AuthoringService, task: Task, tmp_path: Path) -> Path:
    return write_folder(LocalAuthor(service), f"archive:{task.id}", tmp_path / "asked")


def test_a_folder_holds_what_an_author_needs(folder: Path, service: AuthoringService) -> None:
    names = {p.name for p in folder.iterdir()}
    assert names >= {
        "README.md", "graph.md", "region.md", "task.h", "history.md", "knowledge.md", "example.cpp", "ask.json",
        "answer", "warpsmith_simd.h",
    }  # fmt: skip
    assert "aten.neg.default" in (folder / "graph.md").read_text()
    assert "| `in0` | `x` | float32[4,8] | (8,1) | input |" in (folder / "region.md").read_text()
    assert "warpsmith tell FOLDER" in (folder / "README.md").read_text()
    assert read_covers((folder / "example.cpp").read_text()) == "n0, n1"
    assert "Nothing yet" in (folder / "history.md").read_text()


def test_for_a_gpu_a_folder_needs_none(service: AuthoringService, task: Task, tmp_path: Path) -> None:
    with AuthoringService(service.config, "cuda") as other:
        folder = write_folder(LocalAuthor(other), f"archive:{task.id}", tmp_path / "gpu", "n0")
    assert "__constant__" in (folder / "task.h").read_text()
    assert "answer/first.cu" in (folder / "README.md").read_text()
    assert read_covers((folder / "example.cu").read_text()) == "n0"
    (folder / "answer" / "first.cu").write_text(unit(1.0))
    assert target_of([folder]) == "cuda"
    assert read_folder(folder)[0].nodes == ("n0",)


def test_every_file_is_a_candidate_and_a_folder_is_one(
    folder: Path, service: AuthoringService, task: Task
) -> None:
    answers = folder / "answer"
    (answers / "a.cpp").write_text(unit(1.0))
    (answers / "b.cpp").write_text("// warpsmith-unit: 1\n// covers: n1\n")
    (answers / "notes.md").write_text("not a unit")
    (answers / "pair").mkdir()
    for name in ("n0", "n1"):
        (answers / "pair" / f"{name}.cpp").write_text(f"// warpsmith-unit: 1\n// covers: {name}\n")
    found = collect(LocalAuthor(service), [folder])
    assert {t for t, _ in found} == {f"archive:{task.id}"}
    regions = [
        [u.region.nodes for u in service.candidate(service.task(t), Submission(units=a)).units]
        for t, a in found
    ]
    assert regions == [[("n0", "n1")], [("n1",)], [("n0",), ("n1",)]]
    alone = collect(LocalAuthor(service), [answers / "a.cpp"])
    assert [t for t, _ in alone] == [f"archive:{task.id}"]
    assert target_of([folder, answers / "a.cpp"]) == "cpu"


def test_asking_again_keeps_the_answers(folder: Path, service: AuthoringService, task: Task) -> None:
    (folder / "answer" / "a.cpp").write_text(unit(1.5))
    given = collect(LocalAuthor(service), [folder])[0]
    one = Submission(units=given[1])
    job = service.submit(JobRequest(kind="verdict", task=given[0], submissions=(one,), author="Ada"))
    service.wait(job.job_id, 10)
    write_folder(LocalAuthor(service), f"archive:{task.id}", folder)
    assert (folder / "answer" / "a.cpp").is_file()
    assert "by Ada: confirmed" in (folder / "history.md").read_text()


def test_an_edited_folder_does_not_change_the_task(
    folder: Path, service: AuthoringService, task: Task
) -> None:
    (folder / "answer" / "a.cpp").write_text(unit(1.0))
    (folder / "task.py").write_text("class Model: pass\n")
    (folder / "task.h").write_text("")
    assert collect(LocalAuthor(service), [folder])[0][0] == f"archive:{task.id}"
    assert service.task(f"archive:{task.id}") == task


def test_a_place_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("")
    for place in (tmp_path / "mine", tmp_path / "mine" / "file"):
        with pytest.raises(UsageError, match="holds something else"):
            expect_free(place)
    (tmp_path / "empty").mkdir()
    expect_free(tmp_path / "empty")
    expect_free(tmp_path / "new")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "was not written by `warpsmith ask`"),
        ("{", "is damaged"),
        ("[]", "is damaged"),
        ('{"task": 1}', "is damaged"),
        (
            '{"version": 2, "task": "t", "name": "n", "spec": "s", "target": "cpu", "nodes": []}',
            "of version 2",
        ),
    ],
)
def test_a_damaged_folder_is_said_in_one_line(folder: Path, text: str | None, says: str) -> None:
    (folder / "ask.json").unlink()
    if text is not None:
        (folder / "ask.json").write_text(text)
    with pytest.raises(UsageError, match=says) as caught:
        read_folder(folder)
    assert len(str(caught.value).splitlines()) == 1


def test_what_cannot_be_told(folder: Path, service: AuthoringService, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no answer"):
        collect(LocalAuthor(service), [folder])
    (tmp_path / "alone.cpp").write_text(unit(1.0))
    with pytest.raises(UsageError, match="--task"):
        collect(LocalAuthor(service), [tmp_path / "alone.cpp"])
    (folder / "answer" / "a.cpp").write_text(unit(1.0))
    asked = json.loads((folder / "ask.json").read_text()) | {"task": "0" * 16}
    (folder / "ask.json").write_text(json.dumps(asked))
    with pytest.raises(UsageError, match="does not hold the task"):
        collect(LocalAuthor(service), [folder])
    (tmp_path / "gpu.cu").write_text("")
    with pytest.raises(UsageError, match="cpu and cuda"):
        target_of([folder, tmp_path / "gpu.cu"])
