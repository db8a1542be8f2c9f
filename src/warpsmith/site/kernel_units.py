"""The units of a kernel: what each covers, its schedule in words and numbers, its source."""

from __future__ import annotations

import re
from typing import Any

from ..pages.safety import make_file_id
from ..progress import counted
from ..records import Candidate, Unit
from .source_lines import SourceLines
from .tables import Table, make_table
from .tunables import MEANINGS

SUFFIXES = {"c++": "cpp", "cuda": "cu", "aten": "aten"}
MAX_SUMMARY_LINES = 6
_DECLARATION = re.compile(
    r"//\s*(?:warpsmith-unit|family|technique|covers|tunable|requires|flags|atomics|tensor-map)\b"
)
_COMMENT = re.compile(r"//[ \t]*(.*)")


def list_units(
    candidate: Candidate, most: int, source_bytes: int, sources: SourceLines
) -> list[dict[str, Any]]:
    """List the first units with their sources, which share so many bytes."""
    file_id, units = make_file_id(candidate.id), candidate.units[:most]
    rows, size = [], source_bytes
    for number, unit in enumerate(units, 1):
        room = size // (len(units) - number + 1)
        lines, missing = sources.take(unit.text, unit.language, room)
        size -= len(lines.encode())
        rows.append(
            {
                "title": unit.technique or unit.family or "unit", "about": _describe(unit), "summary": find_summary(unit.source),
                "schedule": tabulate_schedule(unit), "lines": lines, "missing": missing,
                "href": name_download(file_id, number, unit) if unit.text else "",
            }
        )  # fmt: skip
    return rows


def name_download(file_id: str, number: int, unit: Unit) -> str:
    return f"{file_id}.{number}.{SUFFIXES[unit.language]}.txt"


def find_summary(source: str) -> str:
    """Return the sentences with which a source opens, after what its front matter declares."""
    words: list[str] = []
    for line in source.splitlines()[:60]:
        comment = _COMMENT.match(line)
        if comment is None:
            break
        if not _DECLARATION.match(line):
            words.append(comment[1].strip())
    return " ".join(w for w in words[:MAX_SUMMARY_LINES] if w)


def tabulate_schedule(unit: Unit) -> Table:
    """Tabulate the tunables: the value, the others that a search may take, and the meaning."""
    rows = [
        (
            t.name,
            str(t.value),
            ", ".join(str(v) for v in t.domain if v != t.value) or "none",
            MEANINGS.get(t.name, ""),
        )
        for t in unit.tunables
    ]
    return make_table("Schedule", ("tunable", "value", "alternatives", "meaning"), rows, most=30)


def _describe(unit: Unit) -> str:
    facts = [
        f"Covers {counted(len(unit.region.nodes), 'node')}: {unit.region.title}.",
        f"In {unit.language}, family {unit.family or 'given'}.",
    ]
    facts += [f"Flags: {' '.join(unit.flags)}."] if unit.flags else []
    facts += (
        [f"Requires {'; '.join(unit.requires)}."] if unit.requires else ["General: any shape of its rank."]
    )
    facts += ["The order of its additions may change from call to call."] if unit.atomics else []
    return " ".join(facts)
