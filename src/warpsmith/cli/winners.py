"""Which win a run or a task has to offer, and the win as it holds on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..progress import observer_for
from ..records.intervals import find_worth
from . import options as o

if TYPE_CHECKING:
    from ..archive.entries import Entry, RunRecord
    from ..archive.store import Archive
    from ..config import Config


def offer(
    store: Archive, run: RunRecord, entry: Entry, config: Config, confirm: bool, elsewhere: bool
) -> tuple[RunRecord, Entry]:
    """The win as it was confirmed in this environment, if need be now. Raises UsageError where it is none here."""
    from ..authoring.offering import find_win_here, judge_here

    if elsewhere:
        return run, entry
    try:
        return find_win_here(store, run, entry, config)
    except UsageError:
        if not confirm:
            raise
    with observer_for(quiet=False) as observer:
        return judge_here(store, run, entry, config, observer.stage)


def winner(archive: Archive, what: str | None) -> tuple[RunRecord, Entry]:
    """The run with this id, or the task's newest run with a win (None: the latest run), and its confirmed win. A win
    that was confirmed in this environment comes before one that was not.

    Raises UsageError when there is no win, ArchiveError when nothing has that name.
    """
    from ..archive.offers import find_confirmation
    from ..authoring.offering import describe_machine_for

    name = Path(what).stem if what and what.endswith(".py") else (what or "").rpartition(":")[2]
    runs = [r for r in archive.runs() if r.task_name == name]
    first: tuple[RunRecord, Entry] | None = None
    for run in runs or [archive.run(what)]:
        entry = find_confirmed_win(archive, run)
        if entry is not None:
            first = first or (run, entry)
            if find_confirmation(archive, entry, describe_machine_for(o.config(), run.target)) is not None:
                return run, entry  # of a shared archive's wins one that holds on this machine
    if first is not None:
        return first
    raise UsageError(
        f"{(runs or [run])[0].task_name} has no win confirmed on this machine to export: "
        "run `warpsmith optimize` on it first"
    )


def find_confirmed_win(archive: Archive, run: RunRecord) -> Entry | None:
    """Find what the run claims, or else its fastest confirmed win, that nothing judged later contradicts. None for
    an imported run or a quarantined task.
    """
    if run.admission is not None and not run.admission.admitted:
        return None
    wins = archive.winners(run.task_id, run.target, run.environment.id)
    standing = {e.candidate.content_key for e in wins if e.result.environment == run.environment.id}
    win_entries = [
        e
        for e in archive.run_entries(run.run_id)
        if e.kind == "confirmation" and e.result.win and e.verified_here
        and e.candidate.content_key in standing
    ]  # fmt: skip
    claimed = run.summary.best.candidate_id if run.summary and run.summary.best else ""
    return max(
        win_entries, key=lambda e: (e.candidate.id == claimed, find_worth(e.result.speedup)), default=None
    )
