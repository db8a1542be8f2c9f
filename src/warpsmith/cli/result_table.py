"""Results of the archive as rows of one table, whatever they were looked for by: of a kind, or by text."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from . import printing

if TYPE_CHECKING:
    from ..archive.entries import Entry
    from ..archive.store import Archive

COLUMNS = ("candidate", "task", "target", "status", "over the best baseline", "limit", "technique", "on")


class Kind(StrEnum):
    winners = "winners"
    stones = "stones"
    screened = "screened"
    quarantined = "quarantined"
    failed = "failed"


def print_entries(archive: Archive, entries: list[Entry], json: str | None) -> None:
    """Print entries as a table, or as JSON lines' records where `json` says."""
    if json is not None:
        printing.write_json([e.model_dump(mode="json", exclude={"hypothesis"}) for e in entries], json)
    if json == "-":
        return
    names = {task: _name(archive, task) for task in {e.candidate.task_id for e in entries}}
    devices = {
        environment: _device(archive, environment) for environment in {e.result.environment for e in entries}
    }
    rows = [_row(e, names[e.candidate.task_id], devices[e.result.environment]) for e in entries]
    printing.print_rows(COLUMNS, rows)


def _row(entry: Entry, task: str, device: str) -> list[str]:
    result, timing = entry.result, entry.result.timing
    over = f"{printing.ratio_text(result.speedup)} {result.speedup.baseline}" if result.speedup else ""
    status = result.status if entry.verified_here else f"{result.status} (imported)"
    return [
        entry.candidate.id, task, result.target, status, over,
        f"{timing.limit_share:.0%}" if timing else "",
        " + ".join(u.technique or u.family for u in entry.candidate.units), device,
    ]  # fmt: skip


def _name(archive: Archive, task_id: str) -> str:
    task = archive.task(task_id)
    return task.name if task is not None else task_id


def _device(archive: Archive, environment_id: str) -> str:
    environment = archive.environment(environment_id)
    return environment.hardware if environment is not None else ""
