"""The course of a run's search: what each operator was given and gained, its islands and elites, what was not judged, what was not spent.

In: a run's summary, as the search filled it, and its judged candidates. Out: an `Evolution`, the tables that every format prints of
it, and lines for people. Runs from before there was anything to tell have none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..archive import Entry
from ..progress import counted
from ..records import Elite, Migration, OperatorUse, RunSummary
from .blocks import EliteRow, Evolution, Report
from .tables import Grid


def evolution(summary: RunSummary | None, entries: Sequence[Entry]) -> Evolution | None:
    if summary is None or not (summary.operators or summary.islands or summary.rejected or summary.saved):
        return None
    return Evolution(
        operators=summary.operators, islands=summary.islands, elites=_elites(summary, entries),
        rejected=summary.rejected, saved=summary.saved,
    )  # fmt: skip


def lines(report: Report) -> list[str]:
    """List what was left to ATen, what was saved, and what was not judged."""
    evolution = report.evolution
    lines_left = [f"left as it is: {line}" for line in report.left]
    if evolution is None:
        return lines_left
    tests = ", ".join(f"{n} {test}" for test, n in evolution.rejected.items())
    count = counted(sum(evolution.rejected.values()), "candidate")
    return [
        *lines_left,
        *evolution.saved,
        *([f"not judged, for they were not new: {count} ({tests})"] if tests else []),
    ]


def operators(report: Report) -> Grid:
    uses = report.evolution.operators if report.evolution is not None else ()
    rounds = max((len(u.rounds) for u in uses), default=0)
    totals = [sum(u.rounds[r] for u in uses if r < len(u.rounds)) for r in range(rounds)]
    rows = tuple(
        (u.operator, str(u.bred), str(u.judged), str(u.ok), _factor(u.gain), f"{u.cost:.1f}", _per_cost(u), _shares(u, totals))
        for u in uses
    )  # fmt: skip
    columns = (
        "operator", "bred", "judged", "correct", "verified gain", "cost in evaluations", "gain per evaluation",
        f"% of each round, 0 to {max(rounds - 1, 0)}",
    )  # fmt: skip
    return Grid("Operators of the search", columns, rows, frozenset({1, 2, 3, 4, 5, 6}))


def islands(report: Report) -> Grid:
    evolution = report.evolution
    numbers = {a.candidate_id: a.number for a in reversed(report.attempts)}
    rows = tuple(
        (
            str(i), str(use.candidates), str(len(use.elites)), f"{use.best:.2f}×" if use.best else "", use.label,
            ", ".join(_arrival(m, numbers) for m in use.arrived),
        )
        for i, use in enumerate(evolution.islands if evolution is not None else ())
    )  # fmt: skip
    columns = (
        "island",
        "correct candidates",
        "behaviours",
        "best",
        "its techniques",
        "arrived from other islands",
    )
    return Grid("Islands", columns, rows, frozenset({0, 1, 2, 3}))


def elites(report: Report) -> Grid:
    rows = tuple(
        (e.bottleneck, e.technique, e.cover, f"{e.speedup:.2f}×", f"#{e.number}" if e.number else "", _numbers(e.islands))
        for e in (report.evolution.elites if report.evolution is not None else ())
    )  # fmt: skip
    columns = ("bottleneck", "techniques", "regions", "best ratio", "candidate", "on islands")
    return Grid("Elites: the best of each behaviour", columns, rows, frozenset({3, 4}))


def _elites(summary: RunSummary, entries: Sequence[Entry]) -> tuple[EliteRow, ...]:
    """List the elites of all islands together, best first."""
    regions = {u.region.id: u.region for e in entries for u in e.candidate.units}
    numbers = {e.candidate.id: e.number for e in reversed(entries)}
    elites: dict[tuple[str, str, str], list[tuple[int, Elite]]] = {}
    for island, use in enumerate(summary.islands):
        for elite in use.elites:
            elites.setdefault((elite.bottleneck, elite.technique, elite.cover), []).append((island, elite))
    rows = []
    for (bottleneck, technique, cover), holders in elites.items():
        best = max((e for _, e in holders), key=lambda e: e.speedup)
        nodes = " + ".join(regions[r].title if r in regions else r for r in cover.split(" + "))
        on, number = tuple(i for i, _ in holders), numbers.get(best.candidate_id, 0)
        row = EliteRow(
            bottleneck=bottleneck,
            technique=technique,
            cover=nodes,
            speedup=best.speedup,
            number=number,
            islands=on,
        )
        rows.append(row)
    return tuple(sorted(rows, key=lambda r: -r.speedup))


def _factor(gain: float) -> str:
    """A sum of log speedups as a factor."""
    return f"{math.exp(gain):.2f}×" if gain > 0 else "—"


def _per_cost(use: OperatorUse) -> str:
    return f"{100 * math.expm1(use.gain / use.cost):.1f}%" if use.gain > 0 and use.cost > 0 else "—"


def _shares(use: OperatorUse, totals: Sequence[int]) -> str:
    rounds = [*use.rounds, *[0] * (len(totals) - len(use.rounds))]
    return " ".join(
        f"{100 * n / total:.0f}" if total else "·" for n, total in zip(rounds, totals, strict=True)
    )


def _arrival(moved: Migration, numbers: dict[str, int]) -> str:
    migrant = f"#{numbers[moved.candidate_id]}" if moved.candidate_id in numbers else moved.candidate_id[:8]
    return f"{migrant} from {moved.source} after round {moved.round}"


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))
