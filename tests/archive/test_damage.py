"""A damaged row is left out with a warning that names it; everything else is read."""

from __future__ import annotations

import pytest

from warpsmith.archive.exemplars import find_sound_entries
from warpsmith.archive.rows import ArchiveWarning
from warpsmith.errors import ArchiveError


@pytest.fixture
def three(begun, make):
    """Three results, of the candidates 0, 1 and 2."""
    archive = begun()
    for n in range(3):
        archive.add_result("run-1", make.candidate(n), make.ok(make.candidate(n), 1.0 + n))
    return archive


def techniques(entries) -> list[str]:
    return [e.candidate.units[0].technique for e in entries]


@pytest.mark.parametrize("damage", ["'{'", "replace(record, '\"ok\"', '\"splendid\"')", "''"])
def test_a_damaged_result_is_named_and_left_out(three, make, sql, damage):
    lost = make.ok(make.candidate(1), 2.0).id
    sql(f"UPDATE results SET record = {damage} WHERE id = '{lost}'")
    for read in (
        lambda: three.results(make.task.id, "cpu"),
        lambda: three.run_entries("run-1"),
        lambda: sorted(
            find_sound_entries(three, "relu|f32|r2", "cpu"), key=lambda e: e.candidate.units[0].technique
        ),
    ):
        with pytest.warns(ArchiveWarning, match=f"result {lost} of the archive is damaged and left out"):
            assert techniques(read()) == ["v0", "v2"]
    with pytest.warns(ArchiveWarning, match=lost):
        assert len(three.index_judged_results(make.task.id, "cpu", make.environment.id)) == 2


def test_a_damaged_unit_takes_its_own_candidate_only(three, make, sql):
    sql("UPDATE units SET record = replace(record, 'version 1', 'version 9')")
    with pytest.warns(ArchiveWarning, match=f"candidate {make.candidate(1).id} .*does not match its content"):
        assert techniques(three.run_entries("run-1")) == ["v0", "v2"]
    with pytest.raises(ArchiveError, match="does not match its content"):
        three.candidate(make.candidate(1).id)  # what was asked for by name is not silently nothing


def test_a_damaged_run_is_left_out_of_the_list_and_refused_by_name(begun, sql):
    archive = begun("run-1")
    begun("run-2")
    sql("UPDATE runs SET config = '{' WHERE id = 'run-2'")
    with pytest.warns(ArchiveWarning, match="run run-2 of the archive is damaged"):
        assert [run.run_id for run in archive.runs()] == ["run-1"]
    with pytest.warns(ArchiveWarning, match="run run-2"):
        assert archive.run().run_id == "run-1"
    with pytest.warns(ArchiveWarning, match="run run-2"), pytest.raises(ArchiveError, match="no run run-2"):
        archive.run("run-2")
