"""The roofline observer places a candidate under this machine's roofline (Williams, Waterman & Patterson 2009, "Roofline: an insightful
visual performance model").

The task's speed-of-light limit and a measured time in, an `Observation` out. Bytes and operations are the least
that the task needs, not what the candidate spent: a share below 1 is the gain that remains, whatever its cause.
"""

from __future__ import annotations

from ..records import Limit
from .observation import Observation, not_available

NAME = "roofline"


def observe(limit: Limit | None, seconds: float) -> Observation:
    """Compare the `seconds` of one call, 0 if it was not timed, with the limit."""
    if limit is None or seconds <= 0:
        return not_available(NAME, "the candidate was not timed, or the run has no limit")
    intensity = limit.flops / limit.least_bytes if limit.least_bytes else 0.0
    ridge = limit.flops_per_second / limit.bytes_per_second
    metrics = {
        "intensity (operations per byte)": intensity,
        "ridge (operations per byte)": ridge,
        "attained GB/s": limit.least_bytes / seconds / 1e9,
        "roof GB/s": limit.bytes_per_second / 1e9,
        "attained GFLOP/s": limit.flops / seconds / 1e9,
        "roof GFLOP/s": limit.flops_per_second / 1e9,
        "share of the limit": limit.seconds / seconds,
    }
    side = "below" if intensity < ridge else "above"
    notes = (f"{limit.bound}-bound: its intensity lies {side} the ridge",)
    return Observation(observer=NAME, metrics=metrics, notes=notes)
