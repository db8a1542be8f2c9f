"""Reads and writes landscapes as files: JSON lines (`.jsonl` or `.jsonl.gz`), one record a line, as `benchmarks/record_landscapes.py` writes them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from ..errors import UsageError
from ..records import Record
from .landscape_data import Header, Landscape, Point, Remeasurement, Site, Source, Whole

VERSION = 1
KINDS: Mapping[str, type[Record]] = MappingProxyType({
    "header": Header, "site": Site, "source": Source, "point": Point, "again": Remeasurement, "whole": Whole
})  # fmt: skip


def read(path: Path) -> Landscape:
    """Read a landscape. Raises UsageError for a file that is no landscape, or of another version. A last line cut short is left out."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        records_by_kind: dict[str, list[Record]] = {kind: [] for kind in KINDS}
        for line in data.splitlines():
            if line.endswith(b"}"):
                kind, fields = json.loads(line).popitem()
                records_by_kind[kind].append(KINDS[kind].model_validate(fields))
        header = records_by_kind["header"][0]
    except (OSError, EOFError, ValueError, KeyError, IndexError) as error:
        raise UsageError(f"{path} is no landscape: {error}") from error
    if not isinstance(header, Header) or header.version != VERSION:
        raise UsageError(f"{path} was recorded by another version: record it again")
    parts = {f"{kind}s": tuple(records) for kind, records in records_by_kind.items() if kind != "header"}
    return Landscape.model_validate({"header": header, **parts}).merge_remeasurements().drop_incomplete()


def line(record: Record) -> str:
    """Write one record as a line of a landscape's file."""
    kind = next(k for k, cls in KINDS.items() if type(record) is cls)
    return json.dumps(
        {kind: json.loads(record.model_dump_json(exclude_defaults=True))}, separators=(",", ":")
    )
