"""Several archives are shown as one: tasks, runs and results appear once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from warpsmith.archive import Archive, export_jsonl, import_jsonl
from warpsmith.records import Environment, Result
from warpsmith.site import build_site
from warpsmith.site.merging import MergedArchives, TaskRecords
from warpsmith.testing import chain_candidate, chain_task, scripted_result

Opener = Callable[[str], Archive]
Stamp = Callable[[Result, int], Result]


@pytest.fixture
def pair(sample: Archive, open_archive: Opener, tmp_path: Path) -> tuple[Archive, Archive]:
    """An archive, and another one that imported it."""
    copy = open_archive("copy.db")
    export_jsonl(sample, tmp_path / "sample.jsonl")
    import_jsonl(copy, tmp_path / "sample.jsonl")
    return sample, copy


def load(*archives: Archive) -> TaskRecords:
    records = MergedArchives(archives).load(chain_task().id)
    assert records is not None
    return records


def test_an_imported_copy_adds_nothing(pair: tuple[Archive, Archive], tmp_path: Path) -> None:
    sample, copy = pair
    for order in ((sample, copy), (copy, sample)):
        records = load(*order)
        assert len(records.entries) == len(load(sample).entries) == 7
        assert {e.origin for e in records.entries} == {"local"}
        assert [(r.run.run_id, r.run.origin, len(r.entries)) for r in records.runs] == [
            ("run-one", "local", 7)
        ]
    assert {e.origin for e in load(copy).entries} == {"imported"}
    assert build_site(pair, tmp_path / "out").kernels == build_site([sample], tmp_path / "one").kernels


def test_the_longer_copy_of_a_run_is_shown(pair: tuple[Archive, Archive], environment: Environment) -> None:
    sample, copy = pair
    late = chain_candidate("late")
    sample.add_result("run-one", late, scripted_result(late, 1.4, environment.id))
    for order in ((sample, copy), (copy, sample)):
        assert len(load(*order).runs[0].entries) == 8


def test_results_of_two_archives_are_in_the_order_of_their_times(
    open_archive: Opener, environment: Environment, judged_at: Stamp
) -> None:
    archives = [open_archive(name) for name in ("a.db", "b.db")]
    for number, archive in enumerate(archives):
        archive.begin_run(f"run-{number}", chain_task(), "cpu", 7, {}, environment)
        for second in (number + 1, number + 3):
            candidate = chain_candidate(f"v{second}")
            archive.add_result(
                f"run-{number}", candidate, judged_at(scripted_result(candidate, 2.0, environment.id), second)
            )
    entries = load(*archives).entries
    assert [e.candidate.units[0].technique for e in entries] == ["v1", "v2", "v3", "v4"]


def test_a_failure_elsewhere_later_outweighs_a_confirmation(
    open_archive: Opener, environment: Environment, judged_at: Stamp, tmp_path: Path
) -> None:
    archives, candidate = [open_archive(name) for name in ("a.db", "b.db")], chain_candidate("v")
    confirmed = judged_at(scripted_result(candidate, 2.0, environment.id, confirmed=True), 1)
    failure = judged_at(scripted_result(candidate, "incorrect", environment.id), 2)
    for archive, result in zip(archives, (failure, confirmed), strict=True):
        archive.add_task(chain_task())
        archive.add_result(None, candidate, result)
    build_site(archives, tmp_path / "out")
    assert '"outcome": "failed"' in (tmp_path / "out/api/leaderboard.json").read_text()


def test_tasks_are_listed_once_by_name(pair: tuple[Archive, Archive]) -> None:
    assert [name for _, name in MergedArchives(pair).list_tasks()] == ["chain", "quarantined", "untouched"]


def test_a_task_that_no_archive_has_is_left_out_with_a_warning(sample: Archive) -> None:
    with pytest.warns(UserWarning, match="left out"):
        assert MergedArchives([sample]).load("none") is None
