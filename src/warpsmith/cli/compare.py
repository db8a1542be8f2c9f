"""`compare`: two outcomes side by side, task by task, with what is sure and what is noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from ..errors import UsageError
from . import options as o
from . import printing
from .results import existing
from .suite import OutOption

SIDE = "A suite's or optimize's JSON file, an archive, or the id of a run."


def compare(
    a: Annotated[str, typer.Argument(help=SIDE)],
    b: Annotated[str, typer.Argument(help="The same; ratios above 1 say that B is faster.")],
    json: o.JsonOption = None,
    out: OutOption = None,
    archive: o.ArchiveOption = None,
) -> None:
    """Which of two outcomes is faster, per task and in all, with intervals."""
    from ..report.compare import compare_sides
    from ..report.comparison_page import comparison_page
    from ..report.sides import read_side

    files = printing.outputs(json, out)
    side_a, side_b = (read_side(side, lambda: existing(archive)) for side in (a, b))
    comparison = compare_sides(side_a, side_b)
    if not comparison.tasks:
        names = "; ".join(
            f"{side.name} has {list_briefly([s.task for s in side.summaries])}" for side in (side_a, side_b)
        )
        raise UsageError(f"no task is in both for one target: {names}")
    page = comparison_page(comparison)
    printing.write_page(page, files)
    printing.print_page(page, json)


def list_briefly(names: Sequence[str], most: int = 3) -> str:
    """["a", "b", "c", "d", "e"] → "a, b, c and 2 more"."""
    suffix = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + suffix
