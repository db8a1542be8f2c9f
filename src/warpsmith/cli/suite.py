"""`suite`: a whole benchmark; its tables stand in files after every run, and on standard output at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..ahead import start_ahead
from ..errors import ModelError, WarpsmithError
from ..progress import observer_for
from ..records import RunSummary
from . import options as o
from . import printing
from .ray_flags import RayFlags
from .search_flags import SearchFlags, spread

if TYPE_CHECKING:
    from ..report.pages import Page

OutOption = Annotated[
    list[Path] | None,
    typer.Option("--out", help="Write a report: .md, .html, .csv (one row a search), .txt or .json. Repeatable."),
]  # fmt: skip


@spread
def suite(
    name: Annotated[
        str, typer.Argument(help="A suite's name (core), or a folder of task files or of such folders.")
    ],
    flags: SearchFlags,
    cluster_flags: RayFlags,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, max=o.MAX_COUNT, help="Only the first N tasks.")
    ] = None,
    samples: Annotated[
        int,
        typer.Option(
            "--samples",
            min=1,
            max=o.MAX_COUNT,
            help="Independent searches of each task, for the metrics at k.",
        ),
    ] = 1,
    lanes: Annotated[
        int,
        typer.Option(
            "--lanes",
            min=1,
            max=64,
            help="Processes that play runs side by side, spread over the visible GPUs; on a CPU 1. With --ray: on each GPU.",
        ),
    ] = 1,
    json: o.JsonOption = None,
    out: OutOption = None,
) -> None:
    """Run every task of a suite; a suite that was interrupted goes on where it stopped."""
    cluster = cluster_flags.make_cluster(lanes)
    if lanes == 1 and cluster is None:  # each lane has a server of its own
        start_ahead(flags.baselines)
    from ..api import run_suite

    tables = Tables(name, json, printing.outputs(json, out))
    config = flags.config()
    limits = flags.limits(config)
    with observer_for(flags.quiet) as observer:
        try:
            done = run_suite(
                name, target=flags.target, budget=limits, seed=flags.seed, config=config, observer=observer,
                limit=limit, samples=samples, finished=tables.add_finished, lanes=lanes, ray=cluster,
            )  # fmt: skip
        except (WarpsmithError, KeyboardInterrupt):
            if tables.done:
                tables.show()
            raise
    tables.done = done
    tables.write(told=True)
    tables.show()
    fail_on_fault(done)
    raise typer.Exit(1 if all(s.status == "failed" for s in done) else 0)


@dataclass
class Tables:
    """The outcome so far, in every form that was asked for."""

    name: str
    json: str | None
    files: dict[Path, str]  # with their formats
    done: list[RunSummary] = field(default_factory=list)
    left: int = 0  # runs that are still to come

    def add_finished(self, summary: RunSummary, left: int) -> None:
        """Whoever kills the suite later finds files that tell of all runs until now."""
        self.done.append(summary)
        self.left = left
        self.write(told=False)

    def write(self, told: bool) -> None:
        printing.write_page(self._page(), self.files, told)

    def show(self) -> None:
        printing.print_page(self._page(), self.json)
        if self.json != "-":
            print("\nproof of a run: warpsmith report RUN --format html --out report.html")

    def _page(self) -> Page:
        from ..report.suite import suite_page

        return suite_page(self.done, self.name, self.left)


def fail_on_fault(summaries: Sequence[RunSummary]) -> None:
    """Raises ModelError when a language model ended a run: what was reached is shown, and is not all there was to reach."""
    for summary in summaries:
        if summary.fault:
            raise ModelError(summary.fault)
