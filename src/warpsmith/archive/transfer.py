"""An archive as JSON lines and back, for other machines.

Each line is `{"kind": …, "id": …, "record": …}`; a line refers only to lines before it. What comes in is
marked `imported`: it never replaces a local result, and counts as unverified until the candidate is
judged here. An import is all or nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, select, true
from sqlalchemy.exc import IntegrityError

from ..errors import ArchiveError
from ..records import Exchange, Result
from . import schema as s
from .incoming import READERS, ImportCounts, PlacedExchange, PlacedResult, without_paths
from .learning import load_lessons
from .reading import ArchiveReader
from .rows import load_candidate, run_record
from .store import Archive

FORMAT = 2  # 2: exchanges and lessons


def export_jsonl(archive: ArchiveReader, path: Path) -> int:
    """Write the whole archive to `path` (built aside, then renamed) and return the number of records."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    count = 0
    try:
        with aside.open("w", encoding="utf-8") as file:
            for line in _lines(archive):
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
                count += 1
        aside.replace(path)
    except OSError as error:
        with suppress(OSError):  # what could not be written is often not there to be removed either
            aside.unlink()
        raise ArchiveError(f"cannot write {path}: {error.strerror}") from error
    return count - 1


def import_jsonl(archive: Archive, path: Path) -> ImportCounts:
    """Add what `path` holds; doing it twice changes nothing. Raises ArchiveError naming the first bad
    line.
    """
    counts = ImportCounts()
    try:
        with path.open(encoding="utf-8") as file, archive.database.transaction(write=True) as connection:
            for number, line in enumerate(file, 1):
                if line.strip():
                    _import_line(connection, counts, f"{path.name}:{number}", line, first=number == 1)
    except OSError as error:
        raise ArchiveError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ArchiveError(f"{path} is not text: it is no archive export") from error
    if not counts.lines:
        raise ArchiveError(f"{path} is empty: it is no archive export")
    return counts


def _lines(archive: ArchiveReader) -> Iterator[dict[str, Any]]:
    yield {"kind": "header", "format": FORMAT}
    with archive.database.transaction() as connection:
        for kind, table in (("environment", s.environments), ("task", s.tasks), ("hypothesis", s.hypotheses)):
            for row in connection.execute(select(table.c.id, table.c.record).order_by(table.c.id)):
                yield {"kind": kind, "id": row.id, "record": json.loads(row.record)}
        for candidate_id in (
            connection.execute(select(s.candidates.c.id).order_by(s.candidates.c.id)).scalars().all()
        ):
            candidate = load_candidate(connection, candidate_id)
            if candidate is not None:
                yield {"kind": "candidate", "id": candidate_id, "record": candidate.model_dump(mode="json")}
        for row in connection.execute(select(s.results).order_by(s.results.c.number)):
            result = without_paths(Result.model_validate_json(row.record))
            yield {"kind": "result", "id": row.id, "record": result.model_dump(mode="json")}
        for row in connection.execute(_runs()):
            yield {"kind": "run", "id": row.id, "record": run_record(row).model_dump(mode="json")}
        for row in connection.execute(_places()):
            yield {"kind": "place", "id": "", "record": _place(row).model_dump(mode="json")}
        for row in connection.execute(select(s.exchanges).order_by(s.exchanges.c.number)):
            exchange = Exchange.model_validate_json(row.record)
            placed = PlacedExchange(run_id=row.run_id, created_at=row.created_at, exchange=exchange)
            yield {"kind": "exchange", "id": "", "record": placed.model_dump(mode="json")}
        for kept in load_lessons(connection, true()):
            yield {"kind": "lesson", "id": "", "record": kept.lesson.model_dump(mode="json")}


def _import_line(connection: Connection, counts: ImportCounts, where: str, line: str, first: bool) -> None:
    try:
        data = json.loads(line)
        kind = data["kind"]
        if first != (kind == "header"):
            raise ArchiveError(
                f"{where}: {'no header' if first else 'a second header'}: this is no archive export"
            )
        if kind == "header":
            if data["format"] > FORMAT:
                raise ArchiveError(
                    f"{where}: written by a newer warpsmith (format {data['format']}): upgrade first"
                )
        else:
            READERS[kind](connection, counts, str(data["id"]), json.dumps(data["record"]))
        counts.lines[kind] = counts.lines.get(kind, 0) + 1
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(p) for p in problem["loc"])
        raise ArchiveError(
            f"{where}: not a valid {error.title.lower()}: {place}: {problem['msg']}"
        ) from error
    except IntegrityError as error:
        raise ArchiveError(f"{where}: refers to a record that no line before it holds") from error
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ArchiveError(f"{where}: not a line of an archive export ({error})") from error
    except ArchiveError as error:
        raise error if str(error).startswith(where) else ArchiveError(f"{where}: {error}") from error


def _runs() -> Any:
    return (
        select(s.runs, s.tasks.c.name.label("task_name"), s.environments.c.record.label("environment_record"))
        .join(s.tasks, s.tasks.c.id == s.runs.c.task_id)
        .join(s.environments, s.environments.c.id == s.runs.c.environment_id)
        .order_by(s.runs.c.started_at, s.runs.c.id)
    )


def _places() -> Any:
    p = s.run_results.c
    query = select(p.run_id, p.number, s.results.c.id.label("result"), p.kind, p.elapsed)
    return query.join(s.results, s.results.c.number == p.result_number).order_by(p.run_id, p.number)


def _place(row: Any) -> PlacedResult:
    return PlacedResult(
        run_id=row.run_id, number=row.number, result=row.result, kind=row.kind, elapsed=row.elapsed
    )
