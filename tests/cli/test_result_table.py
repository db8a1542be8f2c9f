"""`archive list --kind` and `archive find`: the table says what each result is, and of which machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from warpsmith import machine
from warpsmith.archive import Archive
from warpsmith.archive.views import KINDS
from warpsmith.cli import results
from warpsmith.cli.result_table import Kind
from warpsmith.errors import ArchiveError
from warpsmith.testing import chain_candidate, chain_task, scripted_result

TASK = chain_task()
HERE = machine.describe()


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> str:
    """One correct result, of "tiled", and one failed, of "naive"."""
    archive = Archive(tmp_path / "a.db")
    archive.begin_run("run-1", TASK, "cpu", 7, {}, HERE)
    for technique, outcome in (("tiled", 1.5), ("naive", "incorrect")):
        candidate = chain_candidate(technique, f"// {technique} rows")
        result = scripted_result(candidate, outcome, HERE.id)
        archive.add_result("run-1", candidate, result)
    archive.close()
    return str(archive.path)


def test_the_options_are_the_kinds_of_the_archive() -> None:
    assert tuple(Kind) == KINDS


def test_each_kind_has_a_list(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    results.list_runs(place, kind=Kind.stones)
    stones = capsys.readouterr().out
    results.list_runs(place, kind=Kind.failed)
    failed = capsys.readouterr().out
    assert "tiled" in stones
    assert "naive" not in stones
    assert "naive" in failed
    assert "incorrect" in failed
    assert all(text in stones for text in (TASK.name, "1.50x", HERE.device or HERE.cpu))


def test_kernels_are_found_by_words(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results.find_kernels("tiled rows", place, json=str(tmp_path / "found.json"))
    (found,) = json.loads((tmp_path / "found.json").read_text())
    assert found["candidate"]["units"][0]["technique"] == "tiled"
    assert "tiled" in capsys.readouterr().out
    results.find_kernels("naive", place)  # it only failed
    assert "naive" not in capsys.readouterr().out
    with pytest.raises(ArchiveError, match="no archive at"):
        results.find_kernels("x", str(tmp_path / "typo.db"))
