"""An archive as JSON lines and back, for other machines.

Each line is `{"kind": …, "id": …, "record": …}`; a line refers only to lines before it. What comes in is
marked `imported`: it never replaces a local result, and counts as unverified until the candidate is
judged here. An import is all or nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select, true

from ..errors import ArchiveError
from ..records import Exchange, Result
from . import schema as s
from .entries import Entry
from .foreign import foreign_kernels, licenses
from .incoming import ImportCounts, Licensed, PlacedExchange, take, without_paths
from .learning import load_lessons
from .reading import ArchiveReader, select_run_results
from .rows import load_candidate, load_entries, run_record
from .store import Archive
from .walking import every_place

FORMAT = 3  # 2: exchanges and lessons; 3: foreign kernels and licences


def export_jsonl(archive: ArchiveReader, path: Path) -> int:
    """Write the whole archive to `path` (built aside, then renamed) and return the number of records."""
    count = 0
    with aside(path) as aside_path, aside_path.open("w", encoding="utf-8") as file:
        for line in _lines(archive):
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
            count += 1
    return count - 1


def export_run(archive: ArchiveReader, run_id: str, results: bool = True) -> str:
    """Return one run as the lines of an export: its task, environment and row, and with `results` all that it judged, asked and
    learnt, as they were at one moment of a run that goes on. Raises ArchiveError where there is no such run.
    """
    run = archive.run(run_id)
    lines = [
        {"kind": "header", "format": FORMAT},
        record_line("environment", run.environment.id, run.environment),
    ]
    task = archive.task(run.task_id)
    if task is not None:
        lines.append(record_line("task", task.id, task))
    with archive.database.transaction() as connection:
        if results:
            rows = connection.execute(select_run_results(run_id)).all()
            lines += _list_authors(load_entries(connection, rows, as_judged=True))
        lines.append(record_line("run", run_id, run))
        if results:
            lines += _list_judged(connection, run_id)
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def _list_authors(entries: Collection[Entry]) -> Iterator[dict[str, Any]]:
    """Yield the hypotheses and candidates of entries, each once."""
    hypotheses = {e.hypothesis.id: e.hypothesis for e in entries if e.hypothesis is not None}
    yield from (record_line("hypothesis", i, h) for i, h in hypotheses.items())
    candidates = {e.candidate.id: e.candidate for e in entries}
    yield from (record_line("candidate", i, c) for i, c in candidates.items())


def _list_judged(connection: Connection, run_id: str) -> Iterator[dict[str, Any]]:
    """Yield the results of a run with their places, what its models answered, and the lessons."""
    p = s.run_results.c
    query = select(s.results.c.id, s.results.c.record).join(
        s.run_results, p.result_number == s.results.c.number
    )
    for row in connection.execute(query.where(p.run_id == run_id).order_by(p.number)):
        yield record_line("result", row.id, without_paths(Result.model_validate_json(row.record)))
    yield from (record_line("place", "", record) for record in every_place(connection, run_id))
    x = s.exchanges.c
    for row in connection.execute(select(s.exchanges).where(x.run_id == run_id).order_by(x.number)):
        exchange = Exchange.model_validate_json(row.record)
        placed = PlacedExchange(run_id=run_id, created_at=row.created_at, exchange=exchange)
        yield record_line("exchange", "", placed)
    yield from (record_line("lesson", "", lesson.lesson) for lesson in load_lessons(connection, true()))


def import_text(archive: Archive, text: str, name: str) -> ImportCounts:
    """Add the lines of an export that came as text; `name` is what messages call it. Raises ArchiveError as `import_jsonl`."""
    return _import_lines(archive, text.splitlines(), name)


@contextmanager
def aside(path: Path) -> Iterator[Path]:
    """A file to write beside `path`, which takes its place when the block ends well. Raises ArchiveError, one line, when
    it cannot be written.
    """
    aside_path = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield aside_path
        aside_path.replace(path)
    except OSError as error:
        raise ArchiveError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # what could not be written is often not there to be removed either
            aside_path.unlink()


def import_jsonl(archive: Archive, path: Path) -> ImportCounts:
    """Add what `path` holds; doing it twice changes nothing. Raises ArchiveError naming the first bad
    line.
    """
    try:
        with path.open(encoding="utf-8") as file:
            return _import_lines(archive, file, path.name)
    except OSError as error:
        raise ArchiveError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ArchiveError(f"{path} is not text: it is no archive export") from error


def _import_lines(archive: Archive, lines: Iterable[str], name: str) -> ImportCounts:
    """Add the lines in one transaction."""
    counts = ImportCounts()
    with archive.database.transaction(write=True) as connection:
        for number, line in enumerate(lines, 1):
            if line.strip():
                _import_line(connection, counts, f"{name}:{number}", line, first=number == 1)
    if not counts.lines:
        raise ArchiveError(f"{name} is empty: it is no archive export")
    return counts


def record_line(kind: str, given: str, record: Any) -> dict[str, Any]:
    """A line of an export. `given`: the record's id, for kinds that have one."""
    return {"kind": kind, "id": given, "record": record.model_dump(mode="json")}


def _lines(archive: ArchiveReader) -> Iterator[dict[str, Any]]:
    yield {"kind": "header", "format": FORMAT}
    with archive.database.transaction() as connection:
        for kind, table in (("environment", s.environments), ("task", s.tasks), ("hypothesis", s.hypotheses)):
            for row in connection.execute(select(table.c.id, table.c.record).order_by(table.c.id)):
                yield {"kind": kind, "id": row.id, "record": json.loads(row.record)}
        ids = connection.execute(select(s.candidates.c.id).order_by(s.candidates.c.id)).scalars().all()
        for candidate_id in ids:
            candidate = load_candidate(connection, candidate_id)
            if candidate is not None:
                yield record_line("candidate", candidate_id, candidate)
        for row in connection.execute(select(s.results).order_by(s.results.c.number)):
            yield record_line("result", row.id, without_paths(Result.model_validate_json(row.record)))
        for row in connection.execute(_runs()):
            yield record_line("run", row.id, run_record(row))
        yield from (record_line("place", "", record) for record in every_place(connection))
        for row in connection.execute(select(s.exchanges).order_by(s.exchanges.c.number)):
            exchange = Exchange.model_validate_json(row.record)
            placed = PlacedExchange(run_id=row.run_id, created_at=row.created_at, exchange=exchange)
            yield record_line("exchange", "", placed)
        for lesson in load_lessons(connection, true()):
            yield record_line("lesson", "", lesson.lesson)
    yield from (record_line("foreign", kernel.id, kernel) for kernel in foreign_kernels(archive))
    for subject, license in licenses(archive).items():
        yield record_line("license", subject, Licensed(license=license))


def _import_line(connection: Connection, counts: ImportCounts, where: str, line: str, first: bool) -> None:
    try:
        data = json.loads(line)
        header = data["kind"] == "header"
    except (KeyError, ValueError, TypeError) as error:
        raise ArchiveError(f"{where}: not a line of an archive export ({error})") from error
    if first != header:
        raise ArchiveError(
            f"{where}: {'no header' if first else 'a second header'}: this is no archive export"
        )
    if not header:
        take(connection, counts, where, data)
        return
    expect_format(where, data.get("format"))
    counts.lines["header"] = 1


def expect_format(where: str, format: Any) -> None:
    if not isinstance(format, int):
        raise ArchiveError(f"{where}: names no format: this is no archive export")
    if format > FORMAT:
        raise ArchiveError(f"{where}: written by a newer warpsmith (format {format}): upgrade first")


def _runs() -> Any:
    return (
        select(s.runs, s.tasks.c.name.label("task_name"), s.environments.c.record.label("environment_record"))
        .join(s.tasks, s.tasks.c.id == s.runs.c.task_id)
        .join(s.environments, s.environments.c.id == s.runs.c.environment_id)
        .order_by(s.runs.c.started_at, s.runs.c.id)
    )
