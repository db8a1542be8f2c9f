"""An archive as Parquet in the field's columns and ours, and back: nothing changes, nothing becomes verified."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from warpsmith.archive import Archive, export_jsonl, import_jsonl
from warpsmith.archive.foreign import ForeignKernel, foreign_kernels, keep_foreign, licenses
from warpsmith.errors import ArchiveError
from warpsmith.records import BaselineTiming
from warpsmith.sharing.columns import ARCHIVE, FIELD
from warpsmith.sharing.importing import import_file
from warpsmith.sharing.kernels import export_parquet

pq = pytest.importorskip("pyarrow.parquet")


def rows(path: Path) -> list[dict]:
    return pq.read_table(path).to_pylist()


@pytest.fixture
def table(filled, tmp_path: Path) -> Path:
    path = tmp_path / "out.parquet"
    assert export_parquet(filled.archive, path, "MIT") == 30
    return path


def test_the_columns_are_the_fields_and_ours(table):
    names = pq.read_schema(table).names
    assert names == [c.name for c in ARCHIVE]
    assert names[:18] == [c.name for c in FIELD]


def test_a_row_says_what_was_measured_in_the_fields_units(table):
    first, second, *_, last = rows(table)[:5]
    assert first["Op_Name"] == "1_exp"
    assert (first["Level_ID"], first["Task_ID"]) == (1, 1)
    assert last["CUDA_Runtime"] == pytest.approx(
        0.1 / 2.01
    )  # milliseconds: the fake takes 100 us over its speedup
    assert (last["PyTorch_Native_Runtime"], last["PyTorch_Compile_Runtime"]) == (0.1, 0.08)
    assert last["CUDA_Speedup_Native"] == 2.01
    assert last["CUDA_Speedup_Compile"] is None  # it was not measured side by side
    assert (last["Correct"], last["Error"], last["ws_confirmed"]) == (True, None, True)
    assert "VEC = 4" in last["CUDA_Code"]  # the value that was measured, not the default
    assert (second["Correct"], second["Error"]) == (False, "incorrect: incorrect")
    assert second["CUDA_Runtime"] is second["ws_speedup"] is None
    assert json.loads(last["ws_hypothesis"])["technique"] == "fused"
    assert json.loads(last["ws_environment"])["cpu"] == "Test CPU"
    assert {r["ws_license"] for r in rows(table)} == {"MIT"}


def test_baselines_are_of_the_run_that_judged_it_not_of_one_that_reused_it(sample, tmp_path):
    task = sample.task("1_t", "exp")
    of = sample.candidate(task, "int a;")
    runs = sorted(
        [sample.begin(task), sample.begin(task)], reverse=True
    )  # judged in the one that is sorted last
    result = sample.judge(runs[0], of, 2.0)
    slow = (BaselineTiming(name="eager", ok=True, median_us=900.0),)
    sample.archive.note_run(runs[1], baselines=slow)
    sample.archive.add_result(runs[1], of, result, kind="reused")
    export_parquet(sample.archive, tmp_path / "a.parquet")
    assert [r["PyTorch_Native_Runtime"] for r in rows(tmp_path / "a.parquet")] == [0.1]


def test_out_and_in_and_out_again_is_the_same(table, tmp_path):
    there = Archive(tmp_path / "there.db")
    counts = import_file(there, table)
    assert (counts.new_results, counts.new_runs) == (30, 6)
    again = tmp_path / "again.parquet"
    export_parquet(there, again)  # the licence came along
    assert pq.read_table(again).equals(pq.read_table(table))
    before = there.counts()
    assert import_file(there, table).new_results == 0
    assert there.counts() == before


def test_what_comes_in_is_unverified_until_judged_here(table, filled, tmp_path):
    there = Archive(tmp_path / "there.db")
    import_file(there, table)
    run = there.runs()[-1]
    assert run.origin == "imported"
    assert filled.archive.winners(run.task_id, "cpu") != []
    assert there.winners(run.task_id, "cpu") == []
    assert {e.origin for e in there.run_entries(run.run_id)} == {"imported"}
    assert [e.kind for e in there.run_entries(run.run_id)] == [
        e.kind for e in filled.archive.run_entries(run.run_id)
    ]


def test_json_lines_carry_foreign_kernels_and_licences(table, tmp_path):
    there, third = Archive(tmp_path / "there.db"), Archive(tmp_path / "third.db")
    import_file(there, table)
    kernel = ForeignKernel(op_name="1_x", cuda_code="a", module_code="b")
    with there.database.transaction(write=True) as connection:
        assert keep_foreign(connection, kernel)
        assert not keep_foreign(connection, kernel)
    export_jsonl(there, tmp_path / "all.jsonl")
    import_jsonl(third, tmp_path / "all.jsonl")
    assert list(foreign_kernels(third)) == [kernel]
    assert licenses(third) == licenses(there) != {}


def test_a_licence_is_not_put_on_what_was_judged_here(table, filled):
    import_file(filled.archive, table)
    assert licenses(filled.archive) == {}


def rewritten(table: Path, keep) -> None:
    whole = pq.read_table(table)
    pq.write_table(whole.filter(keep(whole)), table)


BAD = {
    "the row with the task is gone": lambda t: [False] + [True] * (t.num_rows - 1),
    "the row with the parent's run is gone": lambda t: [n % 5 != 0 for n in range(t.num_rows)],
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_lost_rows_is_refused_whole(table, tmp_path, name):
    rewritten(table, BAD[name])
    there = Archive(tmp_path / "there.db")
    with pytest.raises(ArchiveError, match=r"^out\.parquet: row \d+: ") as caught:
        import_file(there, table)
    assert "\n" not in str(caught.value)
    assert not any(there.counts().values())


def test_a_newer_or_damaged_file_is_refused_whole(table, tmp_path):
    there = Archive(tmp_path / "there.db")
    whole = pq.read_table(table).to_pylist()
    whole[-1]["ws_format"] = 99
    schema = pq.read_schema(table)
    pa = pytest.importorskip("pyarrow")
    pq.write_table(pa.Table.from_pylist(whole, schema=schema), table)
    with pytest.raises(ArchiveError, match=r"row 30: written by a newer warpsmith"):
        import_file(there, table)
    table.write_bytes(table.read_bytes()[:-100])
    with pytest.raises(ArchiveError, match="damaged Parquet"):
        import_file(there, table)
    assert not any(there.counts().values())


def test_an_empty_archive_is_a_table_without_rows(sample, tmp_path):
    assert export_parquet(sample.archive, tmp_path / "none.parquet") == 0
    with pytest.raises(ArchiveError, match="has no rows"):
        import_file(sample.archive, tmp_path / "none.parquet")


def test_it_loads_with_datasets(table, tmp_path):
    datasets = pytest.importorskip("datasets")
    loaded = datasets.load_dataset("parquet", data_files=str(table), cache_dir=str(tmp_path / "cache"))
    assert loaded["train"].num_rows == 30
    assert loaded["train"][4]["Kernel_Name"] == rows(table)[4]["Kernel_Name"]
