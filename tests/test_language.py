"""The words of the code: replaced words stay away, and the habits of `lab/language_table.py` get no worse anywhere.

A limit here is what a folder had reached: lower it with the work, never raise it.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Replaced word → the field's. Words that are stored (an archive's kind "stones", an operator's count `bred`) are not of these.
REPLACED = {
    r"\b(Scripted)?(Desk|Sitting)\b": "AuthoringService, AuthorSession",
    r"\b(JudgeKeeper|Looking|Shelf)\b": "JudgeSessionWorker, TaskQueries, TaskCatalog",
    r"\b(Task|Region|Header|Profile|Verdict)Sheet\b": "…View",
    r"\b(Bred|Breeding)\b": "Proposal, SearchContext",
    r"\b(Archive)?Stones?\b|\bSTONES\b": "TransferSeed",
    r"\b(Archive|No)?Lore\b": "Retrieval",
    r"\b(LED|PAID|SPARE)\b": "MAX_PREDICTED_PER_ROUND, LLM_ONLY_OPERATORS, OVERSAMPLE",
}
# Folder → percent of vague local names, of functions not named by a verb, of docstrings that begin with Of, What, …;
# and how many constants lack their unit. "": a folder that is not listed.
REACHED: dict[str, tuple[float, float, float, int]] = {}
KINDS = ("vague local names", "functions not named by a verb", "docstrings that begin with Of, What, …", "constants without their unit")  # fmt: skip


@cache
def table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("language_table", ROOT / "lab" / "language_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["language_table"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def measured() -> dict[str, list[tuple[float, list[str]]]]:
    """Folder → for each kind the share or number, and the places that it counts."""
    readings: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    for path, text in table().files_of(str(ROOT)).items():
        if path.endswith(".py"):
            readings[table().folder_of(path)].append((path, table().read(path, text)))
    fields = (("vague", "stores"), ("not_verbs", "named"), ("openings", "documented"), ("without_unit", ""))
    result: dict[str, list[tuple[float, list[str]]]] = defaultdict(list)
    for folder, read in readings.items():
        for places, total in fields:
            lines = [f"{path}:{line} {name}" for path, r in read for line, name in getattr(r, places)]
            whole = sum(getattr(r, total) for _, r in read) if total else 100
            result[folder].append((100 * len(lines) / max(whole, 1), lines))
    return result


def test_replaced_words_stay_away() -> None:
    texts = {p: p.read_text() for folder in ("src", "tests") for p in (ROOT / folder).rglob("*.py")}
    back = [
        f"{path.relative_to(ROOT)}:{number} {match[0]}: say {instead}"
        for path, text in texts.items() if path != Path(__file__) and "fixtures" not in path.parts
        for word, instead in REPLACED.items()
        for number, line in enumerate(text.split("\n"), 1) if (match := re.search(word, line))
    ]  # fmt: skip
    assert not back, "\n".join(back)


@pytest.mark.parametrize("folder", sorted(measured()))
def test_habits_get_no_worse(folder: str) -> None:
    limits = REACHED.get(folder, REACHED[""])
    for kind, limit, (value, places) in zip(KINDS, limits, measured()[folder], strict=True):
        assert value <= limit, f"{folder}: {value:.2f} of {kind}, at most {limit}:\n" + "\n".join(places)


def test_kernel_files_open_with_their_sentence() -> None:
    files = [
        p for p in (ROOT / "src/warpsmith/kernels").rglob("*") if p.suffix in (".cuh", ".cu", ".h", ".cpp")
    ]
    odd = [p for p in files if not re.match(r"//! [A-Z0-9].*\S\n", p.read_text())]
    assert not odd, (
        f"begin these with a sentence behind `//!` that says what they are: {[str(p) for p in odd]}"
    )
