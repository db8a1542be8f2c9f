"""The findings in the profile of a judged unit: measured facts that speak for one next step rather than another.

In: a `RegionProfile`. Out: its findings, the one that decides first. The reasoning agent chooses by their
kind, and the report prints their text, so that what is told is what was acted upon.

Without hardware counters the bytes that a unit moved are not known. What is known is the time that moving
its least bytes takes: a unit at half of that limit moved twice as much, or waited half of the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from ..records import RegionProfile, Result

NEAR = 0.9  # share of its limit from which on a region is left alone
BEATEN = 1.15  # share above which the limit is none: the unit does less arithmetic than the limit counts
FAR = 0.6  # share below which moving its bytes, or its arithmetic, does not explain the time
SHORT_US = 25.0  # a call below this and far from its limit is mostly the call itself
EVEN = 0.8  # balance from which on threads share the work: on a busy machine even work is seen as 0.85
VECTORS = 0.4  # of floating-point instructions in inner loops: a loop's remainder alone makes it one half

Kind = Literal["near", "uneven", "scalar", "narrow", "short", "traffic", "arithmetic"]


@dataclass(frozen=True)
class Finding:
    kind: Kind
    text: str  # one line with what was measured
    gain: float = 1.0  # factor on the unit's time if half of the loss is removed


def findings(profile: RegionProfile) -> list[Finding]:
    """List the findings of a profile, none when nothing stands out. A region near its limit has that one finding only."""
    if is_near(profile):
        return [Finding("near", f"{_share(profile)}: nothing left to gain there")]
    unsorted = [*_sharing(profile), *_vectors(profile), *_distance(profile)]
    if profile.limit_share > BEATEN:
        return unsorted
    room = _half(1.0 / max(profile.limit_share, 1e-9))  # nothing gains more than there is up to the limit
    return [Finding(f.kind, f.text, min(f.gain, room)) for f in unsorted]


def is_near(profile: RegionProfile) -> bool:
    """Return whether hardly anything is left to gain; a limit that an algebraic technique beats says nothing about that."""
    return NEAR <= profile.limit_share <= BEATEN


def _sharing(p: RegionProfile) -> Iterator[Finding]:
    if p.balance is not None and p.balance < EVEN:
        text = f"its {p.threads} threads share the work unevenly: on average one is busy {p.balance:.0%}"
        yield Finding("uneven", f"{text} of the time of the busiest", _half(1.0 / p.balance))


def _vectors(p: RegionProfile) -> Iterator[Finding]:
    if p.vector_share is not None and p.vector_share < VECTORS:
        called = f"; it calls {', '.join(p.calls)} one number at a time" if p.calls else ""
        text = f"{p.vector_share:.0%} of the floating-point instructions in its inner loops are on vectors"
        yield Finding("scalar", text + called, _half(2.0))
    elif 0 < p.vector_bits < p.register_bits:
        text = f"it computes on {p.vector_bits} bits at a time, where registers have {p.register_bits}"
        yield Finding("narrow", text, _half(p.register_bits / p.vector_bits) if p.limit_share < FAR else 1.02)


def _distance(p: RegionProfile) -> Iterator[Finding]:
    """Tell what a unit far from its limit does with its time."""
    if p.limit_share >= FAR:
        return
    if p.seconds * 1e6 < SHORT_US:
        cost = "the call and its threads cost" if p.threads else "launching costs"
        yield Finding("short", f"{_share(p)} in {p.seconds * 1e6:.0f} us: {cost} more than the work", 1.1)
        return
    gain = _half(1.0 / max(p.limit_share, 1e-9))
    if p.bottleneck == "memory":
        rate = f"its least bytes pass at {p.least_bytes / p.seconds / 1e9:.1f} GB/s"
        why = "so it moves more or waits (told from the time: no counters are read)"
        yield Finding("traffic", f"{_share(p)}: {rate}, {why}", gain)
    else:
        yield Finding("arithmetic", f"{_share(p)}: it does {p.flops / p.seconds / 1e9:.0f} GFLOP/s", gain)


def _share(p: RegionProfile) -> str:
    bound = "moving its least bytes" if p.bottleneck == "memory" else "its arithmetic"
    return f"{p.limit_share:.0%} of its limit ({bound})"


def _half(factor: float) -> float:
    """Compute the gain when half of the possible saving is reached."""
    return 2.0 / (1.0 + 1.0 / factor)


def summary(profile: RegionProfile) -> str:
    """Write the measured numbers of a unit in one line."""
    parts = [f"{profile.seconds * 1e6:.0f} us alone", f"{profile.limit_share:.0%} of its limit"]
    if profile.balance is not None:
        parts.append(f"threads balanced {profile.balance:.0%}")
    if profile.vector_bits:
        parts.append(f"computes on {profile.vector_bits} of {profile.register_bits} bits")
    if profile.vector_share is not None:
        parts.append(f"{profile.vector_share:.0%} of inner loops' arithmetic on vectors")
    return ", ".join(parts) + "".join(f"; not seen: {text}" for text in profile.missing)


def fastest(results: Iterable[Result]) -> dict[str, RegionProfile]:
    """Return region id → the profile of the fastest correct unit for it."""
    best: dict[str, RegionProfile] = {}
    for result in results:
        for region_profile in result.profile.regions if result.passed and result.profile is not None else ():
            if (
                region_profile.region not in best
                or region_profile.seconds < best[region_profile.region].seconds
            ):
                best[region_profile.region] = region_profile
    return best


def list_settled(results: Iterable[Result]) -> dict[str, Finding]:
    """Return region id → the reason why no more work goes into it."""
    by_region = {region: findings(region_profile) for region, region_profile in fastest(results).items()}
    return {region: f[0] for region, f in by_region.items() if f and f[0].kind == "near"}
