"""The tables and the short lines that every format prints, in the order in which they are read.

In: a report. Out: its tables, without those that have no rows; its lines, each a sentence without a full stop.
"""

from __future__ import annotations

from . import evolution, exchanges, profile_rows, tables
from .blocks import Report
from .tables import Grid

MAIN = (
    tables.baselines, tables.attempts, evolution.operators, evolution.islands, evolution.elites, exchanges.grid, tables.failures
)  # fmt: skip
AFTER = (profile_rows.profile, tables.checks, tables.mutants)


def grids(report: Report) -> list[Grid]:
    """All but the environment, which comes last and apart."""
    return [grid for make in (*MAIN, *AFTER) if (grid := make(report)).rows]


def lines(report: Report) -> list[str]:
    """List what the language models cost, what the first kernels were, what was saved."""
    return [*exchanges.lines(report), *evolution.lines(report)]
