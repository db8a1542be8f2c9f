"""Rows of known columns to a Parquet or JSON-lines file and back. pyarrow is imported only where Parquet is read or written.

Rows are dicts from a column's name to a plain value, None where there is none; they are written and read in batches, so
that a file may be larger than memory. A file is written beside its place and then takes it, whole or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from ..archive.transfer import aside
from ..errors import ArchiveError, UsageError
from .columns import STEP, Column, Kind

Format = Literal["jsonl", "parquet"]
Row = dict[str, Any]
BATCH = 512  # rows in memory at once, and in a row group
DICTIONARY_BYTES = 1 << 24  # repeated task files stay repeated: pyarrow stops looking at 1 MiB
MAGIC = b"PAR1"  # first and last bytes of a Parquet file: https://parquet.apache.org/docs/file-format/


def require_pyarrow() -> Any:
    """The module `pyarrow`. Raises UsageError where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError("Parquet files need pyarrow: pip install 'warpsmith[data]'") from error
    return pyarrow


def write_rows(path: Path, columns: Sequence[Column], rows: Iterable[Row], format: Format) -> int:
    """The number of rows written. Raises ArchiveError when the file cannot be written, UsageError without pyarrow."""
    if format == "parquet":
        return _write_parquet(path, columns, rows)
    count = 0
    with aside(path) as aside_path, aside_path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps({c.name: row[c.name] for c in columns}, ensure_ascii=False) + "\n")
            count += 1
    return count


def _write_parquet(path: Path, columns: Sequence[Column], rows: Iterable[Row]) -> int:
    pa = require_pyarrow()
    schema, count, waiting = arrow_schema(columns), 0, iter(rows)
    with (
        aside(path) as aside_path,
        pa.parquet.ParquetWriter(
            aside_path, schema, compression="zstd", dictionary_pagesize_limit=DICTIONARY_BYTES
        ) as writer,
    ):
        while batch := list(islice(waiting, BATCH)):
            named = [{c.name: row[c.name] for c in columns} for row in batch]
            writer.write_batch(pa.RecordBatch.from_pylist(named, schema=schema))
            count += len(batch)
    return count


def arrow_schema(columns: Sequence[Column]) -> Any:
    pa = require_pyarrow()
    return pa.schema([(c.name, _arrow_type(c.kind)) for c in columns])


def _arrow_type(kind: Kind) -> Any:
    pa = require_pyarrow()
    if kind == "steps":
        return pa.list_(pa.struct([(c.name, _arrow_type(c.kind)) for c in STEP]))
    if kind == "strings":
        return pa.list_(pa.string())
    plain = {"string": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    return plain[kind]


def is_parquet(path: Path) -> bool:
    """By its first bytes. Raises ArchiveError for a file that cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise ArchiveError(f"cannot read {path}: {error.strerror}") from error


def parquet_rows(path: Path) -> Iterator[Row]:
    """Rows with whatever columns the file has. Raises ArchiveError for a damaged file, UsageError without pyarrow."""
    pa = require_pyarrow()
    try:
        with pa.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=BATCH):
                yield from batch.to_pylist()
    except OSError as error:
        raise ArchiveError(f"cannot read {path}: {error.strerror or _take_first_line(error)}") from error
    except pa.ArrowException as error:
        raise ArchiveError(f"{path} is a damaged Parquet file: {_take_first_line(error)}") from error


def json_rows(path: Path) -> Iterator[Row]:
    """One object a line. Raises ArchiveError naming the line that is none."""
    number = 0
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ArchiveError(f"{path.name}:{number}: not an object")
                yield row
    except OSError as error:
        raise ArchiveError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ArchiveError(f"{path} is not text") from error
    except json.JSONDecodeError as error:
        raise ArchiveError(f"{path.name}:{number}: not JSON ({error})") from error


def _take_first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
