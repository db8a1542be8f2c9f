"""Which next step a finding speaks for: other values of a unit's tunables, another technique, other
compiler flags.

In: a technique at the values that were measured, and what its profile says. Out: steps, each with the
finding behind it. A step goes to the neighbouring value in a tunable's domain, never further: the next
measurement says whether to go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from ...kernels.family import Technique
from ...records import RegionProfile, Tunable
from ..findings import Finding, findings

Direction = Literal["up", "down", "other"]
# Tunables in the order in which they are worth a try.
STEPS: Mapping[str, tuple[tuple[str, Direction], ...]] = MappingProxyType({
    "uneven": (  # more and smaller tasks
        ("GRAIN", "down"), ("SPLIT", "up"), ("BLOCK", "down"), ("TILE", "down"), ("QUERIES", "down"),
        ("PART", "down"), ("BAND", "down"),
    ),
    "narrow": (("VEC", "up"),),
    "scalar": (("VEC", "up"), ("PACK", "other")),
    "short": (("GRAIN", "up"), ("SPLIT", "down")),  # fewer threads to wake, less to merge
    "traffic": (  # stores that do not read, pieces that stay in a cache, more loads under way, longer runs
        ("NT", "other"), ("CHUNK", "down"), ("UNROLL", "up"), ("TILE", "down"), ("SWEEP", "up"),
        ("BLOCK", "up"),
    ),
    "arithmetic": (  # more independent sums in registers
        ("UNROLL", "up"), ("VEC", "up"), ("ROWS", "up"), ("COLUMNS", "up"), ("BLOCK", "up"),
        ("PACK", "other"),
    ),
})  # fmt: skip
# On recorded landscapes the first wins at half of all settings, the second at a quarter, the others at a sixth.
FLAGS = ("-funroll-loops", "-fno-tree-vectorize", "-fprefetch-loop-arrays", "-mprefer-vector-width=512")
# Division to 2 ulp over the whole range. What `--use_fast_math` makes of it is 0 for divisors beyond 2^126: SiLU loses its far values.
CUDA_FLAGS = ("--prec-div=false", "-Xptxas=-dlcm=cg")
FLAG_FOR: Mapping[str, str] = MappingProxyType({
    "scalar": "-fvect-cost-model=unlimited", "narrow": "-mprefer-vector-width=512",
    "traffic": "-fprefetch-loop-arrays", "arithmetic": "-funroll-loops",
})  # fmt: skip


def steps(technique: Technique, found: Sequence[Finding]) -> Iterator[tuple[dict[str, int], Finding]]:
    """Values that differ from the technique's in one tunable."""
    values = {t.name: t.value for t in technique.tunables}
    for finding in found:
        for name, direction in STEPS.get(finding.kind, ()):
            for tunable in technique.tunables:
                if tunable.name == name and (value := _neighbour(tunable, direction)) is not None:
                    yield {**values, name: value}, finding


def _neighbour(tunable: Tunable, direction: Direction) -> int | None:
    larger = [v for v in sorted(tunable.domain) if v > tunable.value]
    smaller = [v for v in sorted(tunable.domain) if v < tunable.value]
    if direction == "other":
        larger += smaller
    return next(iter(smaller[::-1] if direction == "down" else larger), None)


def favours(finding: Finding, technique: Technique, measured: RegionProfile) -> bool:
    """Does what was found of a region's measured unit speak for this other technique?"""
    if technique.name == measured.technique:
        return False
    if finding.kind == "uneven":
        return technique.shape.split or technique.name == "split-row"
    if finding.kind == "traffic":
        return technique.single_pass or (measured.technique == "row-buffered" and not technique.shape.stash)
    if finding.kind == "arithmetic":
        return technique.shape.stash
    return finding.kind == "scalar"


def flag_order(profile: RegionProfile | None) -> list[str]:
    """Compiler flags worth a try, first what helps most often and what the unit's profile asks for, without what it has already."""
    if profile is None:
        return list(FLAGS)
    flags_for_findings = [FLAG_FOR[f.kind] for f in findings(profile) if f.kind in FLAG_FOR]
    wide = "-mprefer-vector-width=512"
    useless = {wide} if profile.register_bits < 512 or profile.vector_bits == 512 else set()
    return [flag for flag in dict.fromkeys([FLAGS[0], *flags_for_findings, *FLAGS]) if flag not in useless]
