"""`report`, `export` and `archive` on an archive of two runs of one task: which win is taken, and how tables
are printed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from warpsmith import machine
from warpsmith.archive import Archive
from warpsmith.cli import printing, results
from warpsmith.errors import ArchiveError, UsageError
from warpsmith.export.files import expect_free
from warpsmith.records import Admission, Candidate, Result
from warpsmith.testing import chain_candidate, chain_task, scripted_result

TASK = chain_task()
ENVIRONMENT = machine.describe()


def confirmed(of: Candidate, speedup: float, environment: str = ENVIRONMENT.id) -> Result:
    return scripted_result(of, speedup, environment, confirmed=True)


@pytest.fixture(name="archive")
def _archive(tmp_path: Path) -> Archive:
    """run-1 confirmed a win of 3, the later run-2 one of 2, run-3 found nothing faster."""
    archive = Archive(tmp_path / "a.db")
    for run, technique, speedup in (("run-1", "a", 3.0), ("run-2", "b", 2.0), ("run-3", "c", 0.5)):
        archive.begin_run(run, TASK, "cpu", 7, {}, ENVIRONMENT)
        of = chain_candidate(technique)
        archive.add_confirmation(run, of, confirmed(of, speedup))
    return archive


def technique(archive: Archive, what: str | None) -> tuple[str, str]:
    run, entry = results.winner(archive, what)
    return run.run_id, entry.candidate.units[0].technique


def test_a_run_exports_its_own_win_not_the_fastest_of_the_task(archive: Archive) -> None:
    assert technique(archive, "run-2") == ("run-2", "b")
    assert technique(archive, "run-1") == ("run-1", "a")


@pytest.mark.parametrize("what", ["chain", "folder/chain.py", "package.module:chain"])
def test_a_task_exports_its_newest_win(archive: Archive, what: str) -> None:
    assert technique(archive, what) == ("run-2", "b")


def test_a_run_without_a_win_has_nothing_to_export(archive: Archive) -> None:
    for what in (None, "run-3"):
        with pytest.raises(UsageError, match="chain has no win confirmed"):
            results.winner(archive, what)
    with pytest.raises(ArchiveError, match="no run sofmax"):
        results.winner(archive, "sofmax")


def test_a_quarantined_task_has_nothing_to_export(archive: Archive) -> None:
    archive.note_run("run-2", admission=Admission(admitted=False, mutants={}, reasons=("zeros pass",)))
    with pytest.raises(UsageError, match="no win"):
        results.winner(archive, "run-2")


def test_a_win_that_failed_later_is_not_exported(archive: Archive) -> None:
    of = chain_candidate("b")
    later = scripted_result(of, "incorrect", ENVIRONMENT.id)
    archive.add_result("run-3", of, later, kind="confirmation")
    with pytest.raises(UsageError, match="no win"):
        results.winner(archive, "run-2")


def test_an_archive_that_is_not_there_is_not_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="no archive at"):
        results.existing(tmp_path / "typo.db")
    assert list(tmp_path.iterdir()) == []


def test_tables_in_a_pipe_are_one_plain_line_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    printing.print_rows(("task", "note"), [("softmax", long), ("a", "two\nlines [/bold]"), ("b", "")])
    assert capsys.readouterr().out.splitlines() == [
        "task     note", f"softmax  {long}", "a        two lines [/bold]", "b        -",
    ]  # fmt: skip


def test_tables_on_a_terminal_show_brackets_as_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    printing.print_rows(("note",), [("[/bold] of [red]",)])
    assert "[/bold] of [red]" in capsys.readouterr().out


@pytest.mark.parametrize(("task", "name"), [("1_Square matmul", "task_1_Square_matmul"), ("a-b", "a_b")])
def test_the_default_name_of_a_package_can_be_imported(
    task: str, name: str, archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []
    run, entry = results.winner(archive, "run-2")
    named = run.model_copy(update={"task_name": task})
    monkeypatch.setattr(results, "winner", lambda *_: (named, entry))
    monkeypatch.setattr("warpsmith.export.export_winner", lambda *a: made.append(a[-1]))
    results.export("run-2", results.Form.package, None, archive.path)
    assert made == [Path(f"{name}_fast")]


@pytest.mark.parametrize("form", ["kernelbench", "package", "source"])
def test_an_export_writes_over_nothing_without_force(
    archive: Archive, command: Any, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr("warpsmith.export.export_winner", lambda *arguments: arguments[-1].write_text("new"))
    mine = Path("mine")
    mine.write_text("old")
    arguments = ("export", "run-1", "--as", form, "--out", "mine", "--archive", str(archive.path))
    code, out, err = command(*arguments)
    assert (code, out, mine.read_text()) == (2, "", "old")
    assert err == "warpsmith: mine is there already: name another place, or write over it with --force\n"
    assert command(*arguments, "--force")[0] == 0
    assert mine.read_text() == "new"


def test_a_folder_is_free_while_it_is_empty(tmp_path: Path) -> None:
    expect_free(tmp_path)
    expect_free(tmp_path / "new")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="--force"):
        expect_free(tmp_path)
