"""A file of kernels into an archive: an archive's own export (JSON lines or Parquet), or a table in the field's columns.

What a file is, is seen from its content. Rows of our own come back as the records they were, marked imported. Rows of
others become foreign kernels: their code includes torch's headers and names no region, so it is no unit and nothing of it
is taken for verified; `sharing.solution` writes one as files for `warpsmith judge`. An import is all or nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection

from ..archive.foreign import ForeignKernel, keep_foreign, keep_license
from ..archive.incoming import ImportCounts, invalid, take
from ..archive.store import Archive
from ..archive.transfer import expect_format, import_jsonl
from ..errors import ArchiveError, UsageError
from .columns import ARCHIVE
from .files import Row, is_parquet, json_rows, parquet_rows
from .kernels import FOREIGN
from .licenses import UNKNOWN, check_license

KNOWN = {c.name for c in ARCHIVE} | {"__index_level_0__"}  # pandas leaves its row numbers there
NEEDED = ("Op_Name", "CUDA_Code", "PyTorch_Code_Module")


def import_file(archive: Archive, path: Path, license: str = UNKNOWN) -> ImportCounts:
    """Add what `path` holds; doing it twice changes nothing. `license` is of rows that name none.

    Raises ArchiveError naming the first bad line or row, UsageError where Parquet cannot be read.
    """
    license_id = check_license(license)
    if is_parquet(path):
        return _import_rows(archive, path, parquet_rows(path), license_id)
    if _is_table(path):
        return _import_rows(archive, path, json_rows(path), license_id)
    return import_jsonl(archive, path)


def _is_table(path: Path) -> bool:
    """Return whether its first line is a row of the field's columns."""
    try:
        with path.open(encoding="utf-8") as file:
            first = json.loads(file.readline())
    except (OSError, ValueError):  # `import_jsonl` says what is wrong with it
        return False
    return isinstance(first, dict) and "CUDA_Code" in first


def _import_rows(archive: Archive, path: Path, rows: Iterable[Row], license: str) -> ImportCounts:
    counts, number = ImportCounts(), 0
    with archive.database.transaction(write=True) as connection:
        for number, row in enumerate(rows, 1):
            where = f"{path.name}: row {number}"
            if row.get("ws_records"):
                _take_ours(connection, counts, where, row)
            else:
                _take_foreign(connection, counts, where, row, license)
        if not number:
            raise ArchiveError(f"{path} has no rows: there is nothing to import")
    return counts


def _take_ours(connection: Connection, counts: ImportCounts, where: str, row: Row) -> None:
    expect_format(where, row.get("ws_format"))
    for line in row["ws_records"]:
        try:
            data = json.loads(line)
        except (TypeError, ValueError) as error:
            raise ArchiveError(f"{where}: ws_records holds a line that is not JSON ({error})") from error
        take(connection, counts, where, data)


def _take_foreign(connection: Connection, counts: ImportCounts, where: str, row: Row, license: str) -> None:
    missing = [name for name in NEEDED if not row.get(name)]
    if missing:
        raise ArchiveError(
            f"{where}: {', '.join(missing)} is missing: neither an archive export nor the columns of one"
        )
    try:
        kernel = ForeignKernel(**{field: _plain(row.get(column)) for column, field in FOREIGN.items()})
    except ValidationError as error:
        raise invalid(where, error) from error
    try:
        named = check_license(str(row.get("ws_license") or license))
    except UsageError as error:
        raise ArchiveError(f"{where}: {error}") from error
    if keep_foreign(connection, kernel):
        counts.new_foreign += 1
        keep_license(connection, kernel.id, "" if named == UNKNOWN else named)
    counts.left_out |= {name for name in row if name not in KNOWN}
    counts.lines["foreign"] = counts.lines.get("foreign", 0) + 1


def _plain(value: Any) -> Any:
    """pandas writes what is missing as NaN."""
    return None if isinstance(value, float) and math.isnan(value) else value
