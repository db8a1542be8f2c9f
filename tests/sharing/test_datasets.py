"""Training sets on disk: `datasets.load_dataset` opens them, no signature is in two splits, and the card says so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from sample_archive import SampleArchive

from warpsmith.errors import ArchiveError, UsageError
from warpsmith.sharing.columns import DATASETS, STEP
from warpsmith.sharing.datasets import write_dataset

KINDS = tuple(DATASETS)


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_it_loads_with_datasets_and_nothing_leaks(filled, tmp_path, format):
    datasets = pytest.importorskip("datasets")
    out = tmp_path / "out"
    contents = write_dataset(filled.archive, out, KINDS, format, "Apache-2.0", seed=1)
    where: dict[str, set[str]] = {}
    for kind in KINDS:
        loaded = datasets.load_dataset(str(out), kind, cache_dir=str(tmp_path / "cache"))
        assert {split: rows.num_rows for split, rows in loaded.items()} == contents.sizes(kind)
        assert loaded["train"].column_names == [c.name for c in DATASETS[kind]]
        for split, rows in loaded.items():
            assert set(rows["license"]) == {"Apache-2.0"}
            for text in rows["signature" if kind == "pairs" else "signatures"]:
                for signature in text.splitlines():
                    where.setdefault(signature, set()).add(split)
    assert len(where) > 3
    assert all(len(splits) == 1 for splits in where.values())
    assert set.union(*where.values()) == {"train", "validation", "test"}
    assert (
        contents.splits == write_dataset(filled.archive, tmp_path / "b", KINDS, format, "MIT", seed=1).splits
    )


@pytest.mark.parametrize("builder", ["json", "parquet"])
def test_a_file_loads_by_itself(filled, tmp_path, builder):
    datasets = pytest.importorskip("datasets")
    out, format = tmp_path / "out", "jsonl" if builder == "json" else builder
    write_dataset(filled.archive, out, ["trajectories"], format, "MIT")
    files = {p.stem: str(p) for p in (out / "data" / "trajectories").iterdir()}
    loaded = datasets.load_dataset(builder, data_files=files, cache_dir=str(tmp_path / "cache"))
    step = loaded["train"][0]["steps"][0]
    assert set(step) == {c.name for c in STEP}
    assert isinstance(step["reward"], float)


def test_a_copy_is_left_out_and_counted(sample, tmp_path):
    sample.standard("t", "exp")
    task = sample.task("copy", "sin")
    sample.judge(sample.begin(task), sample.candidate(task, "int t_best;   // the same"), 1.5)
    contents = write_dataset(sample.archive, tmp_path / "out", ["pairs"], "jsonl", "MIT")
    assert sum(contents.sizes("pairs").values()) == 1
    assert contents.repeated == 1


def test_the_card_says_what_is_in_it(filled, tmp_path):
    yaml = pytest.importorskip("yaml")
    contents = write_dataset(filled.archive, tmp_path / "out", KINDS, "jsonl", "Apache-2.0", seed=5)
    text = (tmp_path / "out" / "README.md").read_text()
    header = yaml.safe_load(text.split("---")[1])
    assert header["license"] == ["apache-2.0"]
    assert [c["config_name"] for c in header["configs"]] == list(KINDS)
    for config in header["configs"]:
        for file in config["data_files"]:
            assert (tmp_path / "out" / file["path"]).is_file()
            lines = (tmp_path / "out" / file["path"]).read_text().splitlines()
            assert len(lines) == contents.sizes(config["config_name"])[file["split"]]
    for said in ("Test CPU, 2 threads", "torch 2.13.0", "Seed 5", "6 tasks", "| Apache-2.0 |"):
        assert said in text
    for columns in DATASETS.values():
        assert all(f"| `{c.name}` |" in text for c in columns)


def test_one_group_of_tasks_has_no_test_split_and_the_card_says_so(sample, tmp_path):
    sample.standard("t", "exp")
    contents = write_dataset(sample.archive, tmp_path / "out", ["pairs"], "jsonl", "MIT")
    assert contents.sizes("pairs") == {"train": 1}
    assert "Too few groups of tasks for validation and test" in (tmp_path / "out" / "README.md").read_text()


def test_what_cannot_be_written_leaves_nothing_behind(filled, tmp_path, monkeypatch):
    empty = SampleArchive(tmp_path / "empty.db").archive
    with pytest.raises(ArchiveError, match="nothing verified to learn from"):
        write_dataset(empty, tmp_path / "out", KINDS, "jsonl", "MIT")
    for wrong in ("", "a | b", "x" * 201):
        with pytest.raises(UsageError, match="SPDX"):
            write_dataset(filled.archive, tmp_path / "out", KINDS, "jsonl", wrong)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is there already"):
        write_dataset(filled.archive, tmp_path / "file", KINDS, "jsonl", "MIT")
    with pytest.raises(ArchiveError, match="cannot write"):
        write_dataset(filled.archive, tmp_path / "file" / "out", KINDS, "jsonl", "MIT")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"pip install 'warpsmith\[data\]'"):
        write_dataset(filled.archive, tmp_path / "out", KINDS, "parquet", "MIT")
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix != ".db" and ".db-" not in p.name) == [
        "file"
    ]


def test_an_empty_folder_is_filled(filled, tmp_path):
    out: Path = tmp_path / "out"
    out.mkdir()
    write_dataset(filled.archive, out, ["pairs"], "jsonl", "MIT")
    assert sorted(p.name for p in out.iterdir()) == ["README.md", "data"]
