"""The rule by which a winner may be offered here: only where its win was confirmed in this environment.

The environment is part of a winner's identity: another device, driver, compiler or torch makes other code, and other
numbers. An entry and this machine's environment in, the confirmation that holds here out, or what differs.
"""

from __future__ import annotations

from ..records import Environment
from ..records.intervals import find_worth
from .entries import Entry
from .reading import ArchiveReader

IDENTITY = ("device", "gpu_driver", "compiler", "torch", "simd", "threads")


def differences(there: Environment, here: Environment) -> list[str]:
    """List what makes two environments different ones for a winner: "torch 2.12.0 there, 2.13.0 here". A new kernel of the
    system or a patch of Python does not.
    """
    values = ((name.replace("_", " "), _value(there, name), _value(here, name)) for name in IDENTITY)
    return [
        f"{name} {there_value or 'none'} there, {here_value or 'none'} here"
        for name, there_value, here_value in values
        if there_value != here_value
    ]


def find_confirmation(archive: ArchiveReader, entry: Entry, here: Environment) -> Entry | None:
    """The confirmation of the same content that stands in this environment: this one, another run's, or none."""
    same = [
        e for e in archive.standing(entry.candidate.task_id, entry.candidate.target)
        if e.verified_here and e.candidate.content_key == entry.candidate.content_key
        and not _differs(archive, e, here)
    ]  # fmt: skip
    originals = (e for e in same if e.result.id == entry.result.id)
    return next(originals, None) or max(same, key=lambda e: e.result.judged_at, default=None)


def list_offers(archive: ArchiveReader, target: str, here: Environment) -> list[Entry]:
    """List the winners of all tasks that hold in this environment, each content once, the greatest speedup first."""
    entries = [e for e in archive.standing_everywhere(target) if e.verified_here]
    valid = {}
    for name in {e.result.environment for e in entries}:
        environment = archive.environment(name)
        valid[name] = environment is not None and not differences(environment, here)
    offers: dict[str, Entry] = {}
    for entry in sorted(entries, key=lambda e: -find_worth(e.result.speedup)):
        if valid[entry.result.environment]:
            offers.setdefault(entry.candidate.content_key, entry)
    return list(offers.values())


def why_not_here(archive: ArchiveReader, entry: Entry, here: Environment) -> str:
    """Describe what differs from where it was confirmed, as one line."""
    elsewhere = archive.environment(entry.result.environment)
    if elsewhere is None:
        return "where it was confirmed is not known"
    return "; ".join(differences(elsewhere, here)) or "it was contradicted since"


def _differs(archive: ArchiveReader, entry: Entry, here: Environment) -> bool:
    elsewhere = archive.environment(entry.result.environment)
    return elsewhere is None or bool(differences(elsewhere, here))


def _value(environment: Environment, name: str) -> str:
    value = getattr(environment, name)
    return str(value or environment.cpu) if name == "device" else str(value)
