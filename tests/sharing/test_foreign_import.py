"""Kernels of another project in the field's columns: kept as claims, never as units, results or winners."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from warpsmith.archive import Archive
from warpsmith.archive.foreign import ForeignKernel, foreign_kernel, foreign_kernels, licenses
from warpsmith.errors import ArchiveError, UsageError
from warpsmith.sharing.columns import ARCHIVE, FIELD
from warpsmith.sharing.importing import import_file
from warpsmith.sharing.kernels import FOREIGN, export_parquet

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

CODE = "#include <torch/extension.h>\ntorch::Tensor forward(torch::Tensor x) { return x.relu(); }\n"


def row(**changes: Any) -> dict[str, Any]:
    """As the AI CUDA Engineer Archive has it: times in milliseconds, profiles as Python's repr."""
    return {
        "Op_Name": "19_ReLU", "Level_ID": 1, "Task_ID": 19, "Kernel_Name": "relu_vec4_base", "CUDA_Runtime": 0.02,
        "PyTorch_Native_Runtime": 0.03, "PyTorch_Compile_Runtime": 0.04, "CUDA_Speedup_Native": 1.5,
        "CUDA_Speedup_Compile": 2.0, "CUDA_Code": CODE, "PyTorch_Code_Module": "class Model: ...\n",
        "PyTorch_Code_Functional": None, "Correct": True, "Max_Diff": 0.0, "Error": None,
        "NCU_Profile": "{'metrics': {}}", "Torch_Profile": None, "Clang_Tidy": None, "__index_level_0__": 7,
    } | changes  # fmt: skip


ROWS = [
    row(),
    row(Kernel_Name="relu_bad", Correct=False, CUDA_Runtime=None, CUDA_Speedup_Native=None, Error="mismatch"),
    row(Op_Name="1_Square", Task_ID=1, Max_Diff=float("nan")),
]


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_the_form_is_seen_from_the_content(sample, tmp_path, ending):
    path = written(tmp_path / f"kernels.{ending}", ROWS).rename(tmp_path / "kernels")
    counts = import_file(sample.archive, path, "CC-BY-4.0")
    assert (counts.new_foreign, counts.new_results, counts.left_out) == (3, 0, set())
    kept = {(k.op_name, k.correct): k for k in foreign_kernels(sample.archive)}
    assert set(kept) == {("19_ReLU", True), ("19_ReLU", False), ("1_Square", True)}
    assert kept["1_Square", True].max_diff is None  # pandas' NaN
    assert (kept["19_ReLU", True].cuda_runtime, kept["19_ReLU", True].ncu_profile) == (
        0.02,
        "{'metrics': {}}",
    )
    assert set(licenses(sample.archive).values()) == {"CC-BY-4.0"}
    assert import_file(sample.archive, path, "CC-BY-4.0").new_foreign == 0
    assert len(list(foreign_kernels(sample.archive))) == 3


def test_nothing_of_it_is_a_task_a_result_or_a_winner(sample, tmp_path):
    before = sample.archive.counts()
    import_file(sample.archive, written(tmp_path / "k.parquet", ROWS))
    assert sample.archive.counts() == before
    assert sample.archive.runs() == []


def test_it_leaves_as_it_came(sample, tmp_path):
    import_file(sample.archive, written(tmp_path / "k.parquet", ROWS[:2]), "CC-BY-4.0")
    out = tmp_path / "out.parquet"
    assert export_parquet(sample.archive, out, "MIT") == 2
    found = {r["Kernel_Name"]: r for r in pq.read_table(out).to_pylist()}
    for given in ROWS[:2]:
        got = found[given["Kernel_Name"]]
        assert {c.name: got[c.name] for c in FIELD} == {c.name: given[c.name] for c in FIELD}
        assert got["ws_license"] == "CC-BY-4.0"
    there = Archive(tmp_path / "there.db")
    import_file(there, out)
    assert list(foreign_kernels(there)) == list(foreign_kernels(sample.archive))
    export_parquet(there, tmp_path / "again.parquet")
    assert pq.read_table(tmp_path / "again.parquet").equals(pq.read_table(out))


BAD = {
    "no code": (row(CUDA_Code=None), "CUDA_Code is missing"),
    "no reference": (row(PyTorch_Code_Module=""), "PyTorch_Code_Module is missing"),
    "a word for a time": (row(CUDA_Runtime="fast"), "cuda_runtime: Input should be a valid number"),
    "a licence that is none": (row(ws_license="a | b"), "is no licence's name"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_named_and_nothing_is_imported(sample, tmp_path, name):
    bad, message = BAD[name]
    path = written(tmp_path / "k.jsonl", [row(), bad])
    with pytest.raises((ArchiveError, UsageError), match=message) as caught:
        import_file(sample.archive, path)
    assert str(caught.value).startswith("k.jsonl: row 2: ")
    assert "\n" not in str(caught.value)
    assert list(foreign_kernels(sample.archive)) == []


def test_a_line_that_is_no_object_is_named(sample, tmp_path):
    path = tmp_path / "k.jsonl"
    path.write_text(json.dumps(row()) + "\n{\n")
    with pytest.raises(ArchiveError, match=r"^k\.jsonl:2: not JSON"):
        import_file(sample.archive, path)
    assert list(foreign_kernels(sample.archive)) == []


def test_columns_that_nothing_knows_are_told(sample, tmp_path):
    counts = import_file(sample.archive, written(tmp_path / "k.jsonl", [row(Author="x")]))
    assert counts.left_out == {"Author"}


def test_a_kernel_is_found_by_the_beginning_of_its_id(sample, tmp_path):
    import_file(sample.archive, written(tmp_path / "k.jsonl", ROWS))
    one = next(foreign_kernels(sample.archive))
    assert foreign_kernel(sample.archive, one.id[:6]) == one
    for beginning in ("zzz", ""):
        with pytest.raises(ArchiveError, match="foreign kernel in"):
            foreign_kernel(sample.archive, beginning)


def test_every_column_of_the_field_is_kept():
    assert list(FOREIGN) == [c.name for c in FIELD]
    assert list(FOREIGN.values()) == list(ForeignKernel.model_fields)
    assert FOREIGN["PyTorch_Compile_Runtime"] == "compile_runtime"
    assert len({c.name for c in ARCHIVE}) == len(ARCHIVE)
