"""The words of the code: replaced words stay away, and the habits of `lab/language_table.py` get no worse anywhere.

A limit is what a folder had reached: lower it with the work, never raise it.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "lab"))

from language_table import files_of, folder_of, read  # noqa: E402

# Replaced word → the field's. Words that are stored (an archive's kind "stones", an operator's count `bred`) are not of these.
REPLACED = {
    r"\b(Scripted)?(Desk|Sitting)\b": "AuthoringService, AuthorSession",
    r"\b(JudgeKeeper|Looking|Shelf)\b": "JudgeSessionWorker, TaskQueries, TaskCatalog",
    r"\b(Task|Region|Header|Profile|Verdict)Sheet\b": "…View",
    r"\b(Bred|Breeding)\b": "Proposal, SearchContext",
    r"\b(Archive)?Stones?\b|\bSTONES\b": "TransferSeed",
    r"\b(Archive|No)?Lore\b": "Retrieval",
    r"\b(TimingField|Opponents)\b": "TimingSession, BaselinePool",
    r"\b(LED|PAID|SPARE)\b": "MAX_PREDICTED_PER_ROUND, LLM_ONLY_OPERATORS, OVERSAMPLE",
}
# Folder → percent of vague local names, of functions not named by a verb, of docstrings that begin with Of, What, …;
# and how many constants lack their unit. "": any other folder.
REACHED: dict[str, tuple[float, float, float, int]] = {
    "": (0.0, 0.0, 0.0, 0),
    ".": (0.0, 5.9, 0.0, 0), "agents": (0.3, 0.5, 0.0, 0), "archive": (0.0, 0.0, 0.0, 0),
    "authoring": (1.1, 0.0, 0.0, 0), "bundles": (0.0, 0.0, 0.0, 0), "cli": (0.5, 1.0, 0.0, 0),
    "executors": (0.0, 0.0, 0.0, 0), "export": (0.0, 2.4, 0.0, 0), "judge": (0.0, 0.0, 0.0, 0),
    "codegen": (0.2, 0.7, 0.0, 0), "kernels": (0.4, 0.4, 0.0, 0), "knowledge": (0.6, 0.0, 0.0, 0), "llm": (0.0, 0.0, 0.0, 0),
    "mcp": (0.0, 0.0, 0.0, 0), "pipeline": (0.0, 0.0, 0.0, 0), "processes": (0.0, 0.0, 0.0, 0),
    "profile": (0.0, 0.0, 0.0, 0), "records": (0.3, 0.0, 0.0, 0), "report": (0.1, 0.0, 0.0, 0),
    "runtime": (0.0, 2.0, 0.0, 0), "search": (0.6, 0.0, 0.0, 0), "sharing": (0.0, 0.0, 0.0, 0),
    "solutions": (0.3, 0.0, 0.0, 0), "targets": (0.0, 0.0, 0.0, 0), "tasks": (0.0, 1.0, 0.0, 0),
    "testing": (0.0, 4.5, 0.0, 0), "zoo": (3.3, 0.0, 0.0, 0),
}  # fmt: skip
KINDS = ("% vague local names", "% functions not named by a verb", "% docstrings that begin with Of, What, …", "constants without unit")  # fmt: skip


def read_folders() -> dict[str, list[tuple[str, Any]]]:
    """Return (path, what was read of it) for each file, by folder."""
    folders = defaultdict(list)
    for path, text in files_of(str(ROOT)).items():
        if path.endswith(".py"):
            folders[folder_of(path)].append((path, read(path, text)))
    return folders


def test_replaced_words_stay_away() -> None:
    back = [
        f"{path.relative_to(ROOT)}:{number} {match[0]}: say {instead}"
        for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py") if path != Path(__file__)
        for word, instead in REPLACED.items()
        for number, line in enumerate(path.read_text().split("\n"), 1) if (match := re.search(word, line))
    ]  # fmt: skip
    assert not back, "\n".join(back)


def test_habits_get_no_worse() -> None:
    fields = (("vague", "stores"), ("not_verbs", "named"), ("openings", "documented"), ("without_unit", ""))
    worse = []
    for folder, files in read_folders().items():
        for (places, total), kind, limit in zip(fields, KINDS, REACHED.get(folder, REACHED[""]), strict=True):
            lines = [f"{path}:{line} {name}" for path, r in files for line, name in getattr(r, places)]
            value = (
                100 * len(lines) / (sum(getattr(r, total) for _, r in files) or 1) if total else len(lines)
            )
            worse += [f"{folder}: {value:.2f} {kind}, at most {limit}:", *lines] if value > limit else []
    assert not worse, "\n".join(worse)


def test_kernel_files_open_with_their_sentence() -> None:
    files = [p for p in (ROOT / "src/warpsmith/kernels").rglob("*") if p.suffix in (".cuh", ".cu", ".h", ".cpp")]  # fmt: skip
    odd = [p for p in files if not re.match(r"//! [A-Z0-9].*\S\n", p.read_text())]
    assert not odd, f"begin each with `//!` and a sentence that says what it is: {[str(p) for p in odd]}"
