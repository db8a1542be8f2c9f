"""Good kernels of the archive as examples: units for regions of the same signature, then for regions of like operations.

A region in, units out, each with another source. What is shown was found correct, nothing outweighed it since, and its
task was not quarantined (`archive/exemplars.py`); winners come first.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..archive.entries import Entry
from ..archive.exemplars import find_sound_entries, list_sound_signatures
from ..archive.reading import ArchiveReader
from ..records import Region, Unit
from .query import operations

NEARBY = 8  # other signatures that are looked at
LEAST_ALIKE = 0.25  # share of operations in common, below which a kernel teaches nothing


def exemplars(
    archive: ArchiveReader, region: Region, target: str, k: int, before: str = "", without: str = ""
) -> list[Unit]:
    """At most `k` units, the most telling first. `before`: judged before then; `without`: not of this task."""
    units: dict[str, Unit] = {}  # by source
    for signature in (region.signature, *nearest(archive, region.signature, target, before, without)):
        if len(units) >= k:
            break
        entries = find_sound_entries(archive, signature, target, before=before, without=without)
        for unit in _units(entries, signature):
            if unit.compiled:
                units.setdefault(unit.source, unit)
    return list(units.values())[: max(k, 0)]


def alike(one: str, other: str) -> float:
    """Share of operations that two signatures have in common, of all that either has (Jaccard index)."""
    first, second = operations(one), operations(other)
    return len(first & second) / len(first | second) if first or second else 0.0


def nearest(archive: ArchiveReader, signature: str, target: str, before: str, without: str) -> list[str]:
    """Other signatures of sound units with like operations, the most alike first."""
    signatures = (
        other_signature
        for other_signature in list_sound_signatures(archive, target, before, without)
        if other_signature != signature
    )
    ranked = sorted((-alike(signature, other_signature), other_signature) for other_signature in signatures)
    return [other_signature for negative, other_signature in ranked[:NEARBY] if -negative >= LEAST_ALIKE]


def _units(entries: Iterable[Entry], signature: str) -> Iterable[Unit]:
    for entry in entries:
        yield from (unit for unit in entry.candidate.units if unit.region.signature == signature)
