"""An archive travels as JSON lines: idempotent, validated by line, never overriding what was judged here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import event

from warpsmith.archive import Archive, export_jsonl, import_jsonl
from warpsmith.archive.transfer import export_run
from warpsmith.errors import ArchiveError
from warpsmith.records import Build, RunSummary


@pytest.fixture
def exported(begun, make, tmp_path: Path) -> Path:
    archive = begun()
    parent = make.candidate(1)
    child = make.candidate(2, (parent.id,))
    archive.add_result("run-1", parent, make.failed(parent))
    built = make.ok(child, 1.4, confirmed=True)
    build = Build(unit_key="k", variant="main", ok=True, library="/home/somebody/evil.so")
    archive.add_confirmation("run-1", child, built.model_copy(update={"builds": (build,)}))
    archive.finish_run(RunSummary(run_id="run-1", task="relu", target="cpu", status="no-win"))
    path = tmp_path / "out.jsonl"
    assert export_jsonl(archive, path) == 9
    return path


def test_everything_arrives_and_twice_is_once(exported, make, tmp_path):
    there = Archive(tmp_path / "there.db")
    counts = import_jsonl(there, exported)
    assert (counts.new_results, counts.new_runs) == (2, 1)
    before = there.counts()
    again = import_jsonl(there, exported)
    assert (again.new_results, again.new_runs) == (0, 0)
    assert there.counts() == before
    run = there.run("run-1")
    assert (run.origin, run.summary.status) == ("imported", "no-win")
    assert [e.result.status for e in there.run_entries("run-1")] == ["incorrect", "ok"]
    assert there.ancestors(make.candidate(2, (make.candidate(1).id,)).id) == [make.candidate(1)]


def test_an_import_is_unverified_until_judged_here(exported, make, tmp_path):
    there = Archive(tmp_path / "there.db")
    import_jsonl(there, exported)
    assert there.index_judged_results(make.task.id, "cpu", make.environment.id) == {}
    assert there.winners(make.task.id, "cpu") == []
    (won,) = there.winners(make.task.id, "cpu", include_imported=True)
    assert not won.verified_here
    assert won.result.builds[0].library == ""  # another machine's file is never loaded here
    there.begin_run("local", make.task, "cpu", 1, {}, make.environment)
    there.add_confirmation("local", won.candidate, make.ok(won.candidate, 1.1, confirmed=True))
    first, *_ = there.winners(make.task.id, "cpu", include_imported=True)
    assert first.verified_here
    assert len(there.index_judged_results(make.task.id, "cpu", make.environment.id)) == 1


def test_importing_never_overrides_a_local_result(exported, archive, make):
    before = archive.results(make.task.id, "cpu")
    lines = exported.read_text().splitlines()
    forged = [line.replace('"median":1.4', '"median":9.9') for line in lines]
    exported.write_text("\n".join(forged))
    import_jsonl(archive, exported)
    assert archive.results(make.task.id, "cpu") == before


BAD = {
    "cut short": (lambda lines: [*lines[:-1], lines[-1][:20]], -1),
    "unknown kind": (lambda lines: [*lines, '{"kind": "spell", "id": "", "record": {}}'], 0),
    "not an object": (lambda lines: [*lines, "[1, 2]"], 0),
    "no header": (lambda lines: lines[1:], None),
    "result before candidate": (lambda lines: [x for x in lines if '"kind":"candidate"' not in x], None),
    "unknown field": (lambda lines: [*lines[:1], lines[1].replace('"cpu":', '"gpu":'), *lines[2:]], None),
    "wrong id": (lambda lines: [*lines[:1], lines[1].replace("Test CPU", "Best CPU"), *lines[2:]], None),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_named_and_nothing_is_imported(exported, tmp_path, name):
    change, _ = BAD[name]
    lines = change(exported.read_text().splitlines())
    exported.write_text("\n".join(lines))
    there = Archive(tmp_path / "there.db")
    with pytest.raises(ArchiveError, match=r"^out\.jsonl:\d+: ") as caught:
        import_jsonl(there, exported)
    assert "\n" not in str(caught.value)
    assert not any(there.counts().values())


def test_the_line_number_is_right(exported, tmp_path):
    lines = exported.read_text().splitlines()
    lines.insert(3, json.dumps({"kind": "task", "id": "x", "record": {}}))
    exported.write_text("\n".join(lines))
    with pytest.raises(ArchiveError, match=r"^out\.jsonl:4: not a valid task: name: Field required"):
        import_jsonl(Archive(tmp_path / "there.db"), exported)


def test_files_that_cannot_be_read_or_written(archive, tmp_path):
    with pytest.raises(ArchiveError, match="cannot read"):
        import_jsonl(archive, tmp_path / "missing.jsonl")
    with pytest.raises(ArchiveError, match="cannot write"):
        export_jsonl(archive, tmp_path / "nowhere" / "x.jsonl")
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveError, match="cannot write"):
        export_jsonl(archive, tmp_path / "file" / "x.jsonl")
    (tmp_path / "empty").write_text("")
    with pytest.raises(ArchiveError, match="is empty"):
        import_jsonl(archive, tmp_path / "empty")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ArchiveError, match="is not text"):
        import_jsonl(archive, tmp_path / "binary")


def test_a_run_that_goes_on_is_exported_as_it_was_at_one_moment(begun, make, where):
    """A result that another process writes while the run is read comes whole or not at all."""
    archive, numbers = begun(), iter(range(100))

    def judge_one(*_: object) -> None:
        candidate = make.candidate(next(numbers))
        archive.add_result("run-1", candidate, make.ok(candidate))

    judge_one()
    reader = Archive(where)
    event.listen(reader.database.engine, "after_cursor_execute", judge_one)
    text = export_run(reader, "run-1")
    reader.close()
    assert next(numbers) > 5  # that many results came meanwhile
    lines = [json.loads(line) for line in text.splitlines()]
    ids = {kind: {line["id"] for line in lines if line["kind"] == kind} for kind in ("candidate", "result")}
    results = [line["record"] for line in lines if line["kind"] == "result"]
    assert {r["candidate_id"] for r in results} == ids["candidate"]
    assert {line["record"]["result"] for line in lines if line["kind"] == "place"} == ids["result"]
