"""`archive export|import|dataset|foreign`: forms by flag and by content, and every ending in one line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from warpsmith import machine
from warpsmith.archive import Archive
from warpsmith.testing import chain_candidate, chain_task, scripted_result

TASK = chain_task()
KERNEL = {
    "Op_Name": "19_ReLU", "Kernel_Name": "relu", "CUDA_Code": "// code", "PyTorch_Code_Module": "class Model: ...",
    "Correct": True, "CUDA_Speedup_Native": 1.5,
}  # fmt: skip


@pytest.fixture
def some(tmp_path: Path) -> Path:
    """An archive with one run of two candidates, in the folder of the command."""
    archive = Archive(tmp_path / "archive.db")
    environment = machine.describe()
    archive.begin_run("run-1", TASK, "cpu", 7, {}, environment)
    for technique, speedup in (("a", 3.0), ("b", 2.0)):
        of = chain_candidate(technique, f"int {technique};")
        result = scripted_result(of, speedup, environment.id)
        archive.add_result("run-1", of, result)
    return tmp_path / "archive.db"


@pytest.mark.parametrize(
    ("name", "flags", "records"),
    [
        ("a.jsonl", (), "9 records"),
        ("a.parquet", (), "2 rows"),
        ("a.out", ("--format", "parquet"), "2 rows"),
        ("a.parquet", ("--format", "jsonl"), "9 records"),
    ],
)
def test_export_by_flag_or_ending_and_import_by_content(command, some, tmp_path, name, flags, records):
    code, out, _ = command("archive", "export", name, *flags)
    assert (code, out) == (0, f"wrote {records} to {name}\n")
    Path(name).rename("moved")
    code, out, _ = command("archive", "import", "moved", "--archive", "there.db")
    assert (code, out) == (0, "2 new results, 1 new run from moved\n")
    assert len(Archive(tmp_path / "there.db").run_entries("run-1")) == 2


def test_an_archives_export_writes_over_nothing_without_force(command, some):
    Path("a.jsonl").write_text("mine")
    assert command("archive", "export", "a.jsonl")[0] == 2
    assert Path("a.jsonl").read_text() == "mine"
    assert command("archive", "export", "a.jsonl", "--force")[0] == 0
    assert Path("a.jsonl").read_text() != "mine"


def test_foreign_kernels_come_in_are_listed_and_shown(command, some):
    Path("k.jsonl").write_text(json.dumps(KERNEL | {"Author": "x"}) + "\n")
    code, out, _ = command("archive", "import", "k.jsonl", "--license", "CC-BY-4.0")
    assert code == 0
    assert "1 new foreign kernel" in out
    assert "left out: Author" in out
    code, out, _ = command("archive", "foreign")
    assert code == 0
    assert "19_ReLU" in out
    assert "1.50x" in out
    shown = out.splitlines()[1].split()[0]
    assert command("archive", "foreign", shown)[:2] == (0, "// code\n")
    code, _, err = command("archive", "foreign", shown, "--out", "x")
    assert code == 2
    assert "how its kernel is called is not known" in err
    assert command("archive", "foreign", "--out", "x")[0] == 2
    assert command("archive", "foreign", "nothing")[0] == 4


def test_a_dataset_is_written_once(command, some):
    code, out, _ = command("archive", "dataset", "set", "--license", "MIT", "--kind", "preferences")
    assert code == 0
    assert "preferences" in out
    assert "trajectories" not in out
    assert (Path("set") / "data" / "preferences" / "train.jsonl").read_text().count("\n") == 1
    code, _, err = command("archive", "dataset", "set", "--license", "MIT")
    assert (code, "is there already" in err) == (2, True)
    assert command("archive", "dataset", "other")[0] == 2  # the licence is the user's to name
    assert not Path("other").exists()


def test_without_pyarrow_one_line_and_nothing_written(command, some, monkeypatch):
    command("archive", "export", "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for arguments in (
        ("export", "b.parquet"),
        ("import", "a.parquet", "--archive", "there.db"),
        ("dataset", "set", "--license", "MIT", "--format", "parquet"),
    ):
        code, _, err = command("archive", *arguments)
        assert code == 2
        assert err == "warpsmith: Parquet files need pyarrow: pip install 'warpsmith[data]'\n"
    assert [name for name in ("b.parquet", "set", "there.db") if Path(name).exists()] == []
    assert command("archive", "export", "c.jsonl")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("export", "a.jsonl", "--license", "MIT"), 2),
        (("export", "a.parquet", "--license", "a | b"), 2),
        (("export", "nowhere/a.parquet"), 4),
        (("import", "missing"), 4),
        (("import", "."), 4),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(command, some, arguments, code):
    given, out, err = command("archive", *arguments)
    assert (given, out) == (code, "")
    assert err.startswith("warpsmith: ")
    assert err.count("\n") == 1
