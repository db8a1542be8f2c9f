"""An archive of every earlier schema opens with all that it held, and an export of every earlier format is imported.

`old_files/schemas` has files that each of these versions wrote itself (`write_files.py`), all with the same run.
"""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from warpsmith.archive import Archive, export_jsonl, import_jsonl
from warpsmith.archive.migrations import STEPS
from warpsmith.archive.transfer import FORMAT
from warpsmith.cli import app

FOLDER = Path(__file__).parent / "old_files" / "schemas"
FILES = sorted(FOLDER.glob("schema_*.db.gz"))
EXPORTS = sorted(FOLDER.glob("schema_*.jsonl.gz"))
NEVER_WRITTEN = {3}  # 3 and 4 came in one change


def unpack(file: Path, folder: Path) -> Path:
    path = folder / file.stem
    path.write_bytes(gzip.decompress(file.read_bytes()))
    return path


def read_rows(path: Path, statement: str) -> list[tuple[str, ...]]:
    with sqlite3.connect(path) as raw:
        return raw.execute(statement).fetchall()


def test_every_schema_and_format_has_its_file() -> None:
    """A new step of the migrations brings a file of the new schema with it."""
    versions = {int(re.findall(r"\d+", f.name)[0]) for f in FILES}
    assert versions == set(range(1, len(STEPS) + 1)) - NEVER_WRITTEN
    headers = [json.loads(gzip.decompress(f.read_bytes()).splitlines()[0]) for f in EXPORTS]
    assert {h["format"] for h in headers} == set(range(1, FORMAT + 1))


@pytest.mark.filterwarnings("error")  # a damaged row is left out with a warning
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.partition(".")[0])
def test_archive_of_an_earlier_schema_has_all_that_it_held(file: Path, tmp_path: Path) -> None:
    path = unpack(file, tmp_path)
    version = int(re.findall(r"\d+", file.name)[0])
    assert read_rows(path, "SELECT value FROM meta WHERE key = 'schema_version'") == [(str(version),)]
    statement = "SELECT id, record FROM units ORDER BY id"
    units = read_rows(path, statement)
    archive = Archive(path)
    assert read_rows(path, "SELECT value FROM meta WHERE key = 'schema_version'") == [(str(len(STEPS)),)]
    assert read_rows(path, statement) == units
    assert len(units) == 2
    (run,) = archive.runs()
    assert (run.run_id, run.seed, run.config, run.summary and run.summary.status) == (
        "run-old",
        7,
        {"budget": 3},
        "win",
    )
    entries = archive.run_entries("run-old")
    assert [e.result.status for e in entries] == ["ok", "incorrect", "ok"]
    first, second, confirmed = entries
    assert second.candidate.lineage.parents == (first.candidate.id,)
    assert confirmed.result.timing is not None
    assert confirmed.result.timing.confirmed
    (winner,) = archive.winners(run.task_id, "cpu", run.environment.id)
    assert winner.candidate == first.candidate
    assert [e.candidate.id for e in archive.find("version relu")].count(first.candidate.id) >= 1
    export_jsonl(archive, tmp_path / "again.jsonl")
    copy = Archive(tmp_path / "copy.db")
    import_jsonl(copy, tmp_path / "again.jsonl")
    assert [e.result.id for e in copy.run_entries("run-old")] == [e.result.id for e in entries]


@pytest.mark.parametrize("file", EXPORTS, ids=lambda file: file.name.partition(".")[0])
def test_export_of_an_earlier_format_is_imported(file: Path, tmp_path: Path) -> None:
    path = unpack(file, tmp_path)
    done = CliRunner().invoke(app, ["archive", "import", str(path), "--archive", str(tmp_path / "new.db")])
    assert done.exit_code == 0, done.output
    entries = Archive(tmp_path / "new.db").run_entries("run-old")
    assert [e.result.status for e in entries] == ["ok", "incorrect", "ok"]
    stored = [json.loads(line) for line in path.read_text().splitlines()]
    ids = {line["id"] for line in stored if line["kind"] == "candidate"}
    assert {e.candidate.id for e in entries} == ids
