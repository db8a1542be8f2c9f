"""The page of what we found: speedups that others claim, and what this judge says of the same code; recorded suites.

In: lines that a campaign over published solutions wrote, and kernels of other projects in an archive. Claims that nobody has judged say so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..archive.foreign import foreign_kernels
from ..archive.reading import ArchiveReader
from ..pages.safety import clip
from ..records import Ratio
from .tables import Cell, Table, make_table, show_ratio
from .writing import Writer

MAX_FOREIGN = 300  # of an archive
MEANINGS = (
    ("correct", "it passes every check, whoever did the work"),
    ("incorrect", "wrong values, or no result"),
    ("invalid", "not a measurement: forged, tampered with, clocks that disagree"),
    ("not judged", "nobody has judged it, or it could not be"),
)


@dataclass(frozen=True)
class Finding:
    """A claim and its verdict."""

    task: str
    release: str  # where it was published
    claimed: float | None  # speedup over eager
    verdict: str
    label: str  # who does the work: kernel, library, algorithmic, none
    reason: str
    machine: str
    eager: Ratio | None = None
    best: Ratio | None = None  # over the fastest baseline


def read_finding(row: Mapping[str, Any]) -> Finding | None:
    """Read a line; None where it is none of a claim."""
    if "claimed" not in row or not isinstance(row.get("verdict"), str):
        return None
    speedup = row.get("speedup")
    ratios = speedup if isinstance(speedup, dict) else {}
    text = {
        key: str(row.get(key) or "")
        for key in ("task", "release", "label", "label_reason", "reason", "hardware", "torch", "best")
    }
    reason = text["label_reason"] if row["verdict"] == "correct" else text["reason"]
    return Finding(
        text["task"], text["release"], _read_number(row["claimed"]), row["verdict"], text["label"], reason,
        f"{text['hardware']}, torch {text['torch']}", read_ratio("eager", ratios.get("eager")), read_ratio(text["best"], ratios.get("best")),
    )  # fmt: skip


def read_findings(
    files: Mapping[str, Sequence[Mapping[str, Any]]], archives: Iterable[ArchiveReader]
) -> list[Finding]:
    """Read the claims in files of lines, and those that archives hold. One that was judged on a machine twice stands as the last line says."""
    lines = [f for rows in files.values() for row in rows if (f := read_finding(row)) is not None]
    return [*{(f.task, f.release, f.machine): f for f in lines}.values(), *list_foreign(archives)]


def list_foreign(archives: Iterable[ArchiveReader]) -> Iterator[Finding]:
    """List kernels of other projects: claims that this judge has not looked at."""
    for archive in archives:
        for number, kernel in enumerate(foreign_kernels(archive)):
            if number >= MAX_FOREIGN:
                break
            reason = f"its authors say: {'correct' if kernel.correct else 'not correct' if kernel.correct is not None else 'nothing'}"
            yield Finding(
                kernel.op_name, kernel.kernel_name, kernel.speedup_native, "not judged", "", reason, ""
            )


def read_ratio(baseline: str, values: Any) -> Ratio | None:
    """Read [median, low, high]; None for anything else."""
    numbers = [_read_number(v) for v in values] if isinstance(values, list) and len(values) == 3 else []
    if len(numbers) != 3 or None in numbers:
        return None
    median, low, high = (n or 0.0 for n in numbers)
    return Ratio(baseline=baseline, median=median, low=low, high=high)


def write_findings(writer: Writer, findings: Sequence[Finding]) -> None:
    writer.write_json("api/findings.json", [asdict(f) for f in findings])
    judged = [f for f in findings if f.verdict != "not judged"]
    writer.write_page(
        "found.html", "found.html", total=len(findings), judged=len(judged), verdicts=_tabulate_verdicts(judged), findings=_tabulate(findings),
        meanings=make_table("What the verdicts mean", ("verdict", "meaning"), MEANINGS),
    )  # fmt: skip


def _tabulate_verdicts(judged: Sequence[Finding]) -> Table:
    """Count verdicts by who does the work."""
    labels = [
        name
        for name in ("kernel", "algorithmic", "library", "none", "")
        if any(f.label == name for f in judged)
    ]
    counts = Counter((f.verdict, f.label) for f in judged)
    rows = [
        (
            Cell(verdict, kind=f"badge {verdict}"),
            *(Cell(str(counts[verdict, name]), kind="n") for name in labels),
            Cell(str(sum(counts[verdict, name] for name in labels)), kind="n"),
        )
        for verdict in dict.fromkeys(f.verdict for f in judged)
    ]
    return make_table(
        "Verdicts by who does the work",
        ("verdict", *(name or "not labelled" for name in labels), "together"),
        rows,
    )


def _tabulate(findings: Sequence[Finding]) -> Table:
    rows = []
    for f in sorted(
        findings, key=lambda f: (f.verdict == "not judged", f.verdict, -(f.claimed or 0.0), f.task)
    ):
        claimed = Cell(
            f"{f.claimed:.2f}×" if f.claimed is not None else "", kind="n", sort=f"{f.claimed or 0:.4f}"
        )
        verdict = Cell(f.verdict, kind=f"badge {f.verdict.replace(' ', '-')}")
        rows.append(
            (
                Cell(f.task, note=f.release), claimed, show_ratio(f.eager, name=False), show_ratio(f.best), verdict,
                f.label, clip(f.reason, 160), Cell(f.machine),
            )
        )  # fmt: skip
    columns = (
        "task",
        "claimed",
        "judged, over eager",
        "judged, over the fastest",
        "verdict",
        "who does the work",
        "why",
        "machine",
    )
    return make_table("Every claim", columns, rows, "api/findings.json")


def _read_number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None
