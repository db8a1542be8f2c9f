"""The leaderboard: a row for each task on each machine, with the kernel that stands, over each baseline, and what people filter by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..pages.safety import make_file_id
from ..progress import counted
from .facets import find_facets, find_level, list_dtypes, list_values
from .json_records import dump_standing
from .merging import TaskRecords
from .standing import Standing, rank
from .tables import Cell, Row, Table
from .task_pages import describe_best
from .writing import Writer

FIRST_ROWS = 100  # on the page itself; the script brings the others
COLUMNS = (
    "task", "outcome", "over the fastest baseline", "over eager", "over torch.compile", "of the limit", "kernel", "machine", "judged",
)  # fmt: skip


@dataclass
class Leaderboard:
    """Collects the rows of tasks as they are read, and writes them, best first."""

    rows: list[tuple[tuple[Any, ...], Row, dict[str, Any]]] = field(default_factory=list)  # order, row, JSON

    def add(self, records: TaskRecords, standings: list[Standing]) -> None:
        """Add a task; one that nobody has run has a row, too."""
        for standing in standings or [Standing("", "", "nothing judged", None, 0, 0)]:
            order = _find_order(standing, records.task.name)
            self.rows.append((order, _make_row(standing, records), dump_standing(standing, records)))

    def write(self, writer: Writer, counts: str) -> None:
        rows = [row for _, row, _ in sorted(self.rows, key=lambda r: r[0])]
        first = Table(
            "Best kernel of each task on each machine", COLUMNS, tuple(rows[:FIRST_ROWS]), len(rows)
        )
        further = Table(first.caption, COLUMNS, tuple(rows[FIRST_ROWS:]), len(rows))
        if further.rows:
            writer.write_script("data/leaderboard.js", "addRows", writer.render_rows(further))
        outcomes = [row.facets["outcome"] for row in rows]
        writer.write_page(
            "index.html", "leaderboard.html", table=first, further=len(further.rows), facets=list_values([r.facets for r in rows]),
            summary=f"{counts} In {counted(len(rows), 'row')}:", tallies=_tally(outcomes),
        )  # fmt: skip
        data = [data for _, _, data in sorted(self.rows, key=lambda r: r[0])]
        writer.write_json("api/leaderboard.json", data)


def _tally(outcomes: list[str]) -> list[tuple[str, int]]:
    """Count the rows of each outcome, losses and failures as well as wins."""
    order = (
        "win",
        "no win",
        "loss",
        "failed",
        "unconfirmed",
        "screened",
        "too noisy",
        "unexplained",
        "quarantined",
        "nothing judged",
    )
    return [(name, outcomes.count(name)) for name in order if name in outcomes]


def _find_order(standing: Standing, name: str) -> tuple[Any, ...]:
    """Order rows: wins first, then by what is sure; those without a kernel last."""
    best = rank(standing.entry) if standing.entry is not None else (False, False, False, 0.0)
    counts = standing.outcome not in ("quarantined", "unexplained", "nothing judged")
    return (
        not counts,
        standing.outcome != "win",
        *(-float(part) for part in best),
        name,
        standing.target,
        standing.machine,
    )


def _make_row(standing: Standing, records: TaskRecords) -> Row:
    best, task = describe_best(standing), records.task
    facts = ", ".join(dict.fromkeys(w for w in (task.suite, find_level(task), *list_dtypes(task)[:2]) if w))
    cells = (
        Cell(task.name, href=f"tasks/{make_file_id(task.id)}.html", note=facts),
        best.outcome, best.fastest, best.eager, best.compiled, best.limit, best.kernel,
        Cell(standing.machine, note=standing.target),
        Cell(str(standing.kernels), kind="n", note=f"{standing.failed} failed" if standing.failed else ""),
    )  # fmt: skip
    return Row(cells, find_facets(task, standing))
