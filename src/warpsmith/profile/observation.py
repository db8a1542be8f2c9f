"""`Observation`: what each observer of this package returns.

An observer is a module with `observe(…) -> Observation`. It never raises for what this machine lacks: it says
"not available" with the reason, so that a profile always has an entry for each observer.
"""

from __future__ import annotations

from ..records import Record


class Observation(Record):
    """One observer's findings on one subject."""

    observer: str
    subject: str = ""  # a unit's region id; empty: the whole candidate
    available: bool = True
    reason: str = ""  # why it is not available
    metrics: dict[str, float] = {}  # name with its unit → value
    notes: tuple[str, ...] = ()  # one line each, for people


def not_available(observer: str, reason: str, subject: str = "") -> Observation:
    return Observation(observer=observer, subject=subject, available=False, reason=reason)
