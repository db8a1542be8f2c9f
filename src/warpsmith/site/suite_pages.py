"""Pages of recorded suites: a row a task as a campaign wrote it, where its kernels are in no archive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..pages.safety import clip, make_file_id
from ..records import Ratio
from .findings import read_ratio
from .tables import Cell, Table, make_table, show_ratio
from .task_pages import show_share
from .writing import Writer

MAX_ROWS = 1_000
STATUSES = frozenset({"win", "no-win", "too-busy", "failed", "quarantined"})


@dataclass(frozen=True)
class SuiteRow:
    task: str
    status: str
    kernel: str  # techniques
    best: Ratio | None  # over the fastest baseline
    eager: Ratio | None
    limit_share: float
    machine: str
    reason: str


@dataclass(frozen=True)
class Suite:
    name: str  # of its file, as cpu/kernelbench
    rows: tuple[SuiteRow, ...]


def read_suite(name: str, rows: Sequence[Mapping[str, Any]]) -> Suite | None:
    """Read a campaign's lines; None where they are of another kind."""
    lines = [line for row in rows if (line := _read_row(row)) is not None]
    return Suite(name, tuple(lines)) if lines and len(lines) == len(rows) else None


def read_suites(files: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Suite]:
    """Read the files of lines that are a campaign's."""
    return [suite for name, rows in sorted(files.items()) if (suite := read_suite(name, rows)) is not None]


def write_suites(writer: Writer, suites: Sequence[Suite]) -> None:
    cells: list[tuple[Cell | str, ...]] = []
    for suite in suites:
        path = f"suites/{make_file_id(suite.name.replace('/', '-').lower())}.html"
        counts = Counter(row.status for row in suite.rows)
        cells.append(
            (
                Cell(suite.name, href=path),
                *(Cell(str(n), kind="n") for n in (len(suite.rows), counts["win"])),
                _list_counts(counts),
            )
        )
        writer.write_page(
            path, "suite.html", suite=suite, counts=_list_counts(counts), table=_tabulate(suite)
        )
    table = make_table("Recorded suites", ("suite", "tasks", "wins", "all"), cells)
    writer.write_page("suites.html", "suites.html", table=table)


def _list_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {status}" for status, count in counts.most_common())


def _tabulate(suite: Suite) -> Table:
    rows = [
        (
            r.task, Cell(r.status, kind=f"badge {r.status}"), show_ratio(r.best), show_ratio(r.eager, name=False), show_share(r.limit_share),
            clip(r.kernel, 80), clip(r.reason, 160), Cell(clip(r.machine, 80)),
        )
        for r in suite.rows
    ]  # fmt: skip
    columns = (
        "task",
        "status",
        "over the fastest baseline",
        "over eager",
        "of the limit",
        "kernel",
        "reason",
        "machine",
    )
    return make_table(suite.name, columns, rows, most=MAX_ROWS)


def _read_row(row: Mapping[str, Any]) -> SuiteRow | None:
    task, status = row.get("task") or row.get("item"), row.get("status")
    if not isinstance(task, str) or status not in STATUSES:
        return None
    best, eager, limit_share, kernel = _read_measured(row)
    machine = str(row.get("machine") or row.get("device") or "")
    return SuiteRow(
        task, str(status), kernel, best, eager, limit_share, machine, str(row.get("reason") or "")
    )


def _read_measured(row: Mapping[str, Any]) -> tuple[Ratio | None, Ratio | None, float, str]:
    """Return the ratios over the fastest baseline and over eager, the share of the limit, the kernel. Campaigns write them in three ways."""
    summary = row.get("summary")
    record = summary.get("best") if isinstance(summary, dict) else None
    if isinstance(record, dict):
        best, eager = (_read_record(record.get(key)) for key in ("speedup", "speedup_eager"))
        return best, eager, _read_share(record), str(record.get("label") or "")
    kernel = str(row.get("label") or " + ".join(map(str, row.get("techniques") or ())))
    ratios = row.get("ratios")
    if isinstance(ratios, dict):
        several = [r for name, values in ratios.items() if (r := read_ratio(str(name), values)) is not None]
        fastest = min(several, key=lambda r: r.median, default=None)
        return fastest, next((r for r in several if r.baseline == "eager"), None), _read_share(row), kernel
    return read_ratio(str(row.get("baseline") or ""), row.get("speedup")), None, _read_share(row), kernel


def _read_record(value: Any) -> Ratio | None:
    if not isinstance(value, dict):
        return None
    return read_ratio(str(value.get("baseline") or ""), [value.get(k) for k in ("median", "low", "high")])


def _read_share(row: Mapping[str, Any]) -> float:
    value = row.get("limit_share")
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e6 else 0.0
