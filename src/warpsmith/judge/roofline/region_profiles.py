"""Profiles of regions: what was measured of each unit alone, beside what its region needs at least.

In: a candidate, the graph, this machine's peak rates, and what the verification timed. Out: a
`RegionProfile` for each unit that was timed. What observers see of its library is added later
(`profile/code_profile.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from ... import machine
from ...records import Candidate, Graph, Profile, RegionProfile, Unit
from .limits import region_limit
from .peaks import Peaks

FLOAT_BITS = 32


def region_profiles(
    candidate: Candidate, graph: Graph, peaks: Peaks, unit_us: Mapping[str, float],
    balance: Mapping[str, float], threads: int,
) -> Profile:  # fmt: skip
    """`unit_us`: region id → microseconds of a call alone, caches cold. `balance`: see `judge/timing/balance.py`."""
    timed = [u for u in candidate.units if unit_us.get(u.region.id, 0.0) > 0]
    return Profile(
        regions=tuple(
            _region(u, graph, peaks, unit_us[u.region.id] * 1e-6, balance.get(u.region.id), threads)
            for u in timed
        )
    )


def _region(
    unit: Unit, graph: Graph, peaks: Peaks, seconds: float, balance: float | None, threads: int
) -> RegionProfile:
    limit = region_limit(graph, unit.region, peaks, cold=True)
    on_cpu = unit.language == "c++"
    return RegionProfile(
        region=unit.region.id, seconds=seconds, least_bytes=limit.least_bytes, flops=limit.flops,
        limit_share=limit.seconds / seconds, bottleneck=limit.bound, family=unit.family,
        technique=unit.technique, values=unit.values, flags=unit.flags, threads=threads if on_cpu else 0,
        balance=balance, register_bits=FLOAT_BITS * machine.simd_width_floats() if on_cpu else 0,
    )  # fmt: skip
