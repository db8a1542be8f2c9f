"""The net under changes of kernels: what it records, and that it sees a difference."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture
def net(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("emitted_units")


@pytest.fixture
def rows(net: Any, tmp_path: Path) -> list[dict[str, Any]]:
    """All units of one example, with their texts."""
    texts = tmp_path / "texts"
    texts.mkdir()
    path = BENCHMARKS.parent / "examples" / "softmax.py"
    return net.record_task(("examples/softmax", path), tmp_path / "cache", texts)  # type: ignore[no-any-return]


def run_compare(before: list[dict[str, Any]], after: list[dict[str, Any]], folder: Path) -> tuple[int, str]:
    for name, rows in (("before", before), ("after", after)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, str(BENCHMARKS / "emitted_units.py"), "compare", "before", "after"]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return answer.returncode, answer.stdout


def test_units_of_both_targets_are_recorded_the_same_each_time(
    net: Any, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    assert {row["machine"] for row in rows} == set(net.MACHINES)
    assert len({row["technique"] for row in rows}) > 3
    assert all((tmp_path / "texts" / f"{row['text']}.json").exists() for row in rows)
    path = BENCHMARKS.parent / "examples" / "softmax.py"
    assert net.record_task(("examples/softmax", path), tmp_path / "cache", None) == rows


def test_difference_of_one_text_or_of_machine_code_is_seen(
    rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    code, said = run_compare(rows, rows, tmp_path)
    assert code == 0
    assert f"{len(rows)} texts identical, 0 differ" in said
    other = [{**rows[0], "text": "another"}, *rows[1:]]
    code, said = run_compare(rows, other, tmp_path)
    assert code == 1
    assert "1 differ, 0 gone, 0 new" in said
    code, said = run_compare(rows, rows[1:], tmp_path)
    assert code == 1
    assert "1 gone" in said
    coded = [{**rows[0], "code": "a"}, *rows[1:]]
    code, said = run_compare(coded, [{**rows[0], "code": "b"}, *rows[1:]], tmp_path)
    assert code == 1
    assert "machine code of 1: 1 differ" in said


def test_machine_code_names_no_symbols(net: Any, rows: list[dict[str, Any]], tmp_path: Path) -> None:
    """A unit whose function has another name is the same code; one that computes otherwise is not."""
    from machine_code import machine_code_hash

    row = next(r for r in rows if r["machine"] == "avx2")
    file = tmp_path / "texts" / f"{row['text']}.json"
    held = json.loads(file.read_text())
    source = held["unit"]["source"]
    hashes = []
    for text in (source, source.replace("vectors(", "run_of_vectors("), source.replace("* ", "+ ")):
        held["unit"]["source"] = text
        file.write_text(json.dumps(held))
        hashes.append(machine_code_hash(file))
    assert hashes[0] == hashes[1]
    assert hashes[0] != hashes[2]
