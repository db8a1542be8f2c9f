"""The command `profile`: everything the observers see of a run's winner."""

from __future__ import annotations

from typing import Annotated

import typer

from ..errors import ArchiveError
from ..profile.observation import Observation
from ..progress import observer_for
from . import options as o
from . import printing
from .results import existing, winner


def register(app: typer.Typer) -> None:
    app.command()(profile)


def profile(
    what: Annotated[
        str | None, typer.Argument(metavar="RUN|TASK", help="A run's id, or a task; else the latest run.")
    ] = None,
    archive: o.ArchiveOption = None,
    json: o.JsonOption = None,
) -> None:
    """Show what the observers see of a winner: roofline, compiler, profilers, sanitizers."""
    from ..api import make_target
    from ..processes.buffers import Scratch
    from ..profile.observe import profile as observe

    config, store = o.config(archive), existing(archive)
    run, entry = winner(store, what)
    task = store.task(run.task_id)
    if task is None:
        raise ArchiveError(f"task {run.task_id} of this run is not in the archive")
    timing = entry.result.timing
    seconds = timing.median_us * 1e-6 if timing is not None else 0.0
    target = make_target(run.target, config)
    with observer_for(quiet=False) as observer, Scratch() as scratch:
        profiles = list(
            observe(
                entry.candidate, task, target, scratch=scratch, cache_dir=config.cache, limit=run.limit,
                seconds=seconds, seed=run.seed, progress=observer.stage,
            )
        )  # fmt: skip
    if json is not None:
        printing.write_json([f.model_dump(mode="json") for f in profiles], json)
    if json != "-":
        print(f"{run.task_name}, run {run.run_id}, on {run.environment.hardware}")
        for observation in profiles:
            print_observation(observation)


def print_observation(found: Observation) -> None:
    """A headline, then a line for each number and note."""
    title = f"{found.observer} ({found.subject})" if found.subject else found.observer
    print(title if found.available else f"{title}: not available: {found.reason}")
    for name, value in found.metrics.items():
        print(f"  {name}: {value:,.4g}" if abs(value) < 1e4 else f"  {name}: {value:,.0f}")
    for note in found.notes:
        print(f"  {note}")
