"""The standing of each candidate of a task after everything that was judged of it, machine by machine.

The results of a task in the order in which they came in; out comes one for each candidate and environment: speeds of
different machines are never compared. A later failure outweighs an earlier success, a confirmation a mere measurement.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..archive.entries import Entry
from ..records import Ratio


def standings(entries: Iterable[Entry], imported: bool) -> list[list[Entry]]:
    """For each environment the entry that counts of each candidate, in the order in which the candidates came in.

    Results that say nothing of the candidate (the judge itself failed) are left out; so are imported ones unless asked for.
    """
    counting: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        if entry.result.status == "error" or not (imported or entry.verified_here):
            continue
        entries_here = counting.setdefault(entry.result.environment, {})
        key = entry.candidate.content_key
        entries_here[key] = _counting(entries_here.get(key), entry)
    return [list(entries_here.values()) for entries_here in counting.values()]


def _counting(before: Entry | None, now: Entry) -> Entry:
    if before is None or not (correct(before) and correct(now)):
        return now
    return before if before.result.confirmed and not now.result.confirmed else now


def correct(entry: Entry) -> bool:
    """Correct and timed against a baseline."""
    return entry.result.status == "ok" and entry.result.speedup is not None


def speedup(entry: Entry) -> Ratio:
    """Over the fastest baseline, of an entry that is correct."""
    ratio = entry.result.speedup
    assert ratio is not None
    return ratio


def strength(entry: Entry) -> tuple[bool, float]:
    """To take the best of several: a confirmed win first, then the lower end of the speedup's interval."""
    return entry.result.confirmed and entry.result.win, speedup(entry).low
