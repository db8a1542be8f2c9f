"""Transfer seeds of an archive: sound units of other tasks, for regions of the same signature, then for regions of like operations.

In: an archive, and when the run began, so that a run that is resumed later finds the same ones. Out: `TransferSeeds` for the search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ..archive.entries import Entry
from ..archive.exemplars import find_sound_entries
from ..archive.reading import ArchiveReader
from ..knowledge.exemplars import alike, nearest
from ..records import Region
from ..search.operators import TransferSeed

MOST = 8  # transfer_seeds for a region


@dataclass
class ArchiveTransferSeeds:
    """`before`: judged before then (ISO 8601, UTC); `task_id`: the task that they are for, whose own units are left out."""

    archive: ArchiveReader
    target: str
    before: str = ""
    task_id: str = ""
    _found: dict[str, Sequence[TransferSeed]] = field(default_factory=dict)  # by signature

    def __call__(self, region: Region) -> Sequence[TransferSeed]:
        if region.signature not in self._found:
            self._found[region.signature] = tuple(self._look(region.signature))[:MOST]
        return self._found[region.signature]

    def _look(self, wanted: str) -> Iterator[TransferSeed]:
        """Each technique at its values once; of a signature that is only alike each technique at its best alone."""
        keys: set[tuple[object, ...]] = set()
        signatures = nearest(self.archive, wanted, self.target, self.before, self.task_id)
        for signature in (wanted, *signatures):
            entries = find_sound_entries(
                self.archive, signature, self.target, before=self.before, without=self.task_id
            )
            for transfer_seed in _list_seeds(
                entries, signature, 1.0 if signature == wanted else alike(wanted, signature)
            ):
                unit = transfer_seed.unit
                key = (unit.family, unit.technique, tuple(unit.current_values.items()), unit.flags)
                once_key = key if transfer_seed.alike >= 1.0 else (signature, unit.family, unit.technique)
                if not keys & {key, once_key}:
                    keys |= {key, once_key}
                    yield transfer_seed


def _list_seeds(entries: Iterable[Entry], signature: str, likeness: float) -> Iterator[TransferSeed]:
    for entry in entries:
        ratio = entry.result.speedup
        for unit in entry.candidate.units:
            if unit.region.signature == signature:
                yield TransferSeed(
                    unit, entry.candidate.id, min(likeness, 1.0), ratio.median if ratio else 0.0
                )
