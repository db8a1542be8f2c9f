"""Foreign kernels and licences on both databases: kept once, read in pages, and never where results are looked for."""

from __future__ import annotations

import pytest

from warpsmith.archive import Archive, export_jsonl, foreign, import_jsonl, walking
from warpsmith.archive.foreign import (
    ForeignKernel,
    foreign_kernel,
    foreign_kernels,
    keep_foreign,
    keep_license,
    licenses,
)
from warpsmith.sharing.importing import import_file
from warpsmith.sharing.kernels import export_parquet


def kernel(n: int) -> ForeignKernel:
    return ForeignKernel(op_name=f"{n % 3}_op", cuda_code=f"// {n}", module_code="class Model: ...")


@pytest.fixture
def kept(begun, make) -> tuple[Archive, list[ForeignKernel]]:
    """An archive with a result and seven foreign kernels."""
    archive, kernels = begun(), [kernel(n) for n in range(7)]
    archive.add_result("run-1", make.candidate(1), make.ok(make.candidate(1)))
    with archive.database.transaction(write=True) as connection:
        assert all(keep_foreign(connection, k) for k in kernels)
        assert not any(keep_foreign(connection, k) for k in kernels)
        keep_license(connection, kernels[0].id, "MIT")
        keep_license(connection, kernels[0].id, "GPL-3.0-only")
        keep_license(connection, make.candidate(1).id, "MIT")
    return archive, kernels


def test_they_are_read_page_by_page_in_one_order(kept, monkeypatch):
    archive, kernels = kept
    whole = list(foreign_kernels(archive))
    assert whole == sorted(kernels, key=lambda k: (k.op_name, k.id))
    monkeypatch.setattr(foreign, "PAGE", 2)
    assert list(foreign_kernels(archive)) == whole
    assert foreign_kernel(archive, whole[3].id) == whole[3]


def test_a_licence_stays_as_it_came_and_ours_gets_none(kept):
    archive, kernels = kept
    assert licenses(archive) == {kernels[0].id: "MIT"}


def test_they_are_no_results(kept, make):
    archive, _ = kept
    assert len(archive.results(make.task.id, "cpu")) == 1
    assert archive.winners(make.task.id, "cpu", include_imported=True) == []


def test_they_travel_as_json_lines(kept, tmp_path):
    archive, _ = kept
    export_jsonl(archive, tmp_path / "all.jsonl")
    there = Archive(tmp_path / "there.db")
    assert import_jsonl(there, tmp_path / "all.jsonl").new_foreign == 7
    assert list(foreign_kernels(there)) == list(foreign_kernels(archive))
    assert licenses(there) == licenses(archive)


def test_they_travel_as_parquet(kept, tmp_path):
    pytest.importorskip("pyarrow")
    archive, _ = kept
    assert export_parquet(archive, tmp_path / "all.parquet") == 8
    there = Archive(tmp_path / "there.db")
    counts = import_file(there, tmp_path / "all.parquet")
    assert (counts.new_results, counts.new_foreign) == (1, 7)
    export_parquet(there, tmp_path / "again.parquet")
    assert (tmp_path / "again.parquet").read_bytes() == (tmp_path / "all.parquet").read_bytes()


def test_every_result_is_walked_with_its_id(kept, make, monkeypatch):
    archive, _ = kept
    for n in range(2, 7):
        archive.add_result("run-1", make.candidate(n), make.failed(make.candidate(n)))
    monkeypatch.setattr(walking, "PAGE", 2)
    found = list(walking.every_entry(archive))
    assert [(given, e.result.id) for given, e in found] == [(e.result.id,) * 2 for _, e in found]
    assert [e.candidate.lineage.reason for _, e in found] == [f"try {n}" for n in range(1, 7)]
    assert walking.list_judged_tasks(archive) == [(make.task.id, "cpu")]
