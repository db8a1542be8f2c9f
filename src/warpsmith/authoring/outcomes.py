"""Views of what was judged: a verdict with its evidence, the history of a task, its board.

In: results and entries of the archive. Out: views. A speedup never loses its baseline, interval, hardware
and share of the limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import unified_diff

from ..agents.findings import fastest, findings, summary
from ..archive.entries import Entry
from ..records import BaselineTiming, Candidate, Environment, Lineage, Region, Result, Unit
from .author_views import AttemptRow, BoardRow, SourceView, UnitView, VerdictView
from .fixed_baseline import view_timed

MOST_EVIDENCE = 12
MOST_ROWS = 10
LONGEST = 240  # characters of a reason in a row


def view_verdict(
    task: str, candidate: Candidate, result: Result, hardware: str, notes: Sequence[str] = (), run: str = "",
    fixed: BaselineTiming | None = None,
) -> VerdictView:  # fmt: skip
    timing, verdict = result.timing, result.verdict
    correct = result.status == "ok"
    ratios = sorted(timing.ratios, key=lambda r: r.median) if timing is not None and correct else []
    return VerdictView(
        candidate=candidate.id, task=task, target=result.target, author=author_of(candidate.lineage),
        correct=correct, status=result.status, reason=result.reason, evidence=tuple(evidence(candidate, result)),
        win=result.win and result.confirmed, confirmed=correct and result.confirmed,
        speedup=tuple(ratios), median_us=timing.median_us if timing is not None and correct else None,
        limit_share=timing.limit_share if timing is not None and correct else 0.0,
        peaks=timing.limit.peaks if timing is not None and timing.limit is not None else None,
        labels=verdict.labels if verdict is not None else (),
        units=tuple(nodes_text(u.region) for u in candidate.units),
        parent=", ".join(candidate.lineage.parents), notes=tuple(notes), hardware=hardware, run=run,
        timed=view_timed(result, fixed), values=list_values(candidate),
    )  # fmt: skip


def evidence(candidate: Candidate, result: Result) -> list[str]:
    """Why it failed, the first things first; of a success what was seen of each unit."""
    if result.passed:
        return describe_profiles(candidate, [result])
    failed = [c for c in result.verdict.checks if not c.ok] if result.verdict is not None else []
    names = {u.region.id: nodes_text(u.region) for u in candidate.units}
    lines = [f"{c.rule} at {c.variant}/{c.family}, {names.get(c.where, c.where)}: {c.detail}" for c in failed]
    lines += list(_diagnostics(candidate, result))
    return list(dict.fromkeys(lines))[:MOST_EVIDENCE]


def _diagnostics(candidate: Candidate, result: Result) -> Iterator[str]:
    """List the messages of builds that failed, each once; which unit is said where there are several."""
    names = {u.code_key: nodes_text(u.region) for u in candidate.units}
    said: set[tuple[str, int, str]] = set()
    for build in (b for b in result.builds if not b.ok):
        unit = f" of {names.get(build.unit_key, 'a unit')}" if len(candidate.units) > 1 else ""
        for diagnostic in (d for d in build.diagnostics if d.kind != "warning"):
            if (build.unit_key, diagnostic.line, diagnostic.message) not in said:
                said.add((build.unit_key, diagnostic.line, diagnostic.message))
                at = f"line {diagnostic.line}" if diagnostic.line else "unit"
                yield f"{diagnostic.kind} at {at}{unit} ({build.variant} shapes): {diagnostic.message}"


def describe_profiles(candidate: Candidate, results: Iterable[Result]) -> list[str]:
    """The measured numbers of each unit's fastest result, and what stands out in them."""
    profiles = fastest(results)
    lines: list[str] = []
    for unit in candidate.units:
        profile = profiles.get(unit.region.id)
        if profile is not None:
            lines.append(f"{nodes_text(unit.region)}: {summary(profile)}")
            lines += [f"{nodes_text(unit.region)}: {finding.text}" for finding in findings(profile)]
    return lines[:MOST_EVIDENCE]


def attempt_row(entry: Entry, fixed: BaselineTiming | None = None) -> AttemptRow:
    result, lineage = entry.result, entry.candidate.lineage
    timing = result.timing
    ok = result.status == "ok"
    return AttemptRow(
        candidate=entry.candidate.id, author=author_of(lineage), operator=lineage.operator, status=result.status,
        technique=technique_of(entry.candidate), reason=(result.reason or lineage.reason)[:LONGEST],
        speedup=result.speedup if ok else None,
        limit_share=timing.limit_share if timing is not None and ok else 0.0,
        confirmed=result.confirmed, here=entry.verified_here, timed=view_timed(result, fixed),
        values=list_values(entry.candidate), parents=lineage.parents,
    )  # fmt: skip


def board(
    entries: Sequence[Entry], here: str, environment: Callable[[str], Environment | None], quarantined: bool,
    fixed: BaselineTiming | None = None,
) -> list[BoardRow]:  # fmt: skip
    """The fastest correct candidates, each once by what it is: confirmed ones of this machine first.

    `here`: this machine's environment. A result that a later judgement of the same content contradicts does
    not count.
    """
    latest: dict[str, Entry] = {}
    for entry in (e for e in entries if e.result.status not in ("error", "screened")):
        key = entry.candidate.content_key
        previous = latest.get(key)
        weaker = (
            previous is not None
            and previous.result.confirmed
            and entry.result.status == "ok"
            and not entry.result.confirmed
        )
        if not weaker:
            latest[key] = entry
    standing = [e for e in latest.values() if e.result.status == "ok" and e.result.speedup is not None]
    standing.sort(key=lambda e: (e.result.environment != here, not e.result.confirmed, -_speed(e)))
    return [
        _board_row(
            rank, entry, environment(entry.result.environment), quarantined, entry.result.environment == here, fixed
        )
        for rank, entry in enumerate(standing[:MOST_ROWS], 1)
    ]  # fmt: skip


def _board_row(
    rank: int, entry: Entry, environment: Environment | None, quarantined: bool, here: bool,
    fixed: BaselineTiming | None,
) -> BoardRow:  # fmt: skip
    timing, ratio = entry.result.timing, entry.result.speedup
    if timing is None or ratio is None:
        raise ValueError("a row of the board was timed")
    notes = (
        "quarantined: a cheat passes on this task" if quarantined else "",
        "" if here else "judged elsewhere",
        "" if entry.verified_here else "imported",
    )
    return BoardRow(
        rank=rank, candidate=entry.candidate.id, author=author_of(entry.candidate.lineage),
        technique=technique_of(entry.candidate), speedup=ratio, median_us=timing.median_us,
        limit_share=timing.limit_share, confirmed=timing.confirmed,
        peaks=timing.limit.peaks if timing.limit is not None else None,
        hardware=environment.hardware if environment is not None else "unknown",
        note="; ".join(n for n in notes if n), timed=view_timed(entry.result, fixed if here else None),
        values=list_values(entry.candidate),
    )  # fmt: skip


def view_source(
    candidate: Candidate, parent: Candidate | None, result: Result | None, fixed: BaselineTiming | None
) -> SourceView:
    lineage = candidate.lineage
    return SourceView(
        candidate=candidate.id, task=f"archive:{candidate.task_id}", target=candidate.target, author=author_of(lineage),
        operator=lineage.operator, parents=lineage.parents, reason=lineage.reason,
        units=tuple(
            UnitView(
                nodes=u.region.nodes, language=u.language, source=u.text, values=u.values,
                domains={t.name: t.domain for t in u.tunables}, flags=u.flags, technique=u.technique,
            )
            for u in candidate.units
        ),
        difference=describe_difference(parent, candidate) if parent is not None else "",
        status=result.status if result is not None else "",
        timed=view_timed(result, fixed) if result is not None else None,
    )  # fmt: skip


def describe_difference(parent: Candidate, child: Candidate) -> str:
    """Write how the sources, values and flags of two candidates differ, unit by unit, as `diff -u` does."""
    before, after = (
        {", ".join(u.region.nodes): _unit_lines(u) for u in candidate.units} for candidate in (parent, child)
    )
    lines: list[str] = []
    for nodes in dict.fromkeys([*before, *after]):
        lines += unified_diff(
            before.get(nodes, []), after.get(nodes, []), f"{parent.id} {nodes}", f"{child.id} {nodes}", lineterm=""
        )  # fmt: skip
    return "\n".join(lines)


def _unit_lines(unit: Unit) -> list[str]:
    """The source, after its values and flags: the source itself holds the values that were tuned last only as defaults."""
    values = [f"{name} = {value}" for name, value in sorted(unit.values.items())]
    return [*values, *unit.flags, *unit.text.splitlines()]


def list_values(candidate: Candidate) -> dict[str, int]:
    """The values of a candidate's tunables; a name that several units have is told apart by the unit's place."""
    names = Counter(name for unit in candidate.units for name in unit.values)
    return {
        name if names[name] == 1 else f"{number}.{name}": value
        for number, unit in enumerate(candidate.units, 1)
        for name, value in unit.values.items()
    }


def author_of(lineage: Lineage) -> str:
    """Name all who wrote a part of it: names that authors gave, "expert", models."""
    return " + ".join(lineage.credit)


def technique_of(candidate: Candidate) -> str:
    return " + ".join(u.technique or u.family or u.region.nodes[-1] for u in candidate.units) or "all ATen"


def nodes_text(region: Region) -> str:
    hidden = len(region.nodes) - 3
    return ", ".join(region.nodes[:3]) + (f" and {hidden} more" if hidden > 0 else "")


def _speed(entry: Entry) -> float:
    """The lower end of the interval: what was timed on a busy machine does not lead by luck."""
    return entry.result.speedup.low if entry.result.speedup is not None else 0.0
