"""One side of a comparison: a JSON file, an archive or a run by its id in; named summaries out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..archive.reading import ArchiveReader
from ..errors import UsageError
from ..records import RunSummary


@dataclass(frozen=True)
class Side:
    name: str
    summaries: tuple[RunSummary, ...]


def read_side(what: str, archive: Callable[[], ArchiveReader]) -> Side:
    """`what`: a JSON file of `suite` or `optimize`, an archive (a file, or a URL), else a run's id in `archive`.

    Of an archive the newest finished run of each task counts, of those that were made there. Raises UsageError,
    ArchiveError.
    """
    path = Path(what)
    if "://" in what:
        return Side(what.rpartition("/")[2].partition("?")[0], _newest(ArchiveReader(what)))
    if not path.is_file() and not what.isalnum():
        raise UsageError(f"{what} is neither a file nor the id of a run")
    if not path.is_file():
        return Side(what, _one(archive(), what))
    if path.suffix == ".json" or _starts(path) in ("{", "["):
        return Side(path.name, _parse_summaries(path))
    return Side(path.name, _newest(ArchiveReader(path)))


def _newest(archive: ArchiveReader) -> tuple[RunSummary, ...]:
    newest: dict[tuple[str, str], RunSummary] = {}
    for run in archive.runs():
        if run.summary is not None and run.origin == "local":
            newest.setdefault((run.task_name, run.target), run.summary)
    if not newest:
        raise UsageError(f"{archive.database.name} has no finished run to compare")
    return tuple(newest.values())


def _one(archive: ArchiveReader, run_id: str) -> tuple[RunSummary, ...]:
    summary = archive.run(run_id).summary
    if summary is None:
        raise UsageError(f"run {run_id} has not finished: the same command goes on from there")
    return (summary,)


def _parse_summaries(path: Path) -> tuple[RunSummary, ...]:
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        rows = data.get("tasks", [data]) if isinstance(data, dict) else data
        summaries = tuple(RunSummary.model_validate(row) for row in _list(rows))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValidationError, ValueError) as error:
        raise UsageError(f"{path} is no JSON that `warpsmith suite` or `optimize` wrote") from error
    if not summaries:
        raise UsageError(f"{path} has no task to compare")
    return summaries


def _list(rows: Any) -> Sequence[Any]:
    if not isinstance(rows, list):
        raise ValueError("a list of summaries")
    return rows


def _starts(path: Path) -> str:
    """The first character that is not blank; empty where it is no text."""
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip()[:1].decode("ascii", "ignore")
    except OSError:
        return ""
