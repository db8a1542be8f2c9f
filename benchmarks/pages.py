"""Pages of benchmarks: tables of plain cells, the machine by name, and where a page is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from warpsmith import machine


def list_table(titles: Sequence[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Lines of a Markdown table."""
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    return [*lines, *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)]


def describe_machine() -> str:
    here = machine.describe()
    return (
        f"{here.cpu} ({here.simd}), {here.cores} physical cores, {here.memory_gb:g} GiB, {here.os}, "
        f"{here.compiler}, torch {here.torch}, Python {here.python}"
    )


def write_page(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    print(text)
