"""The expert's ideas and their ranks: every technique of every region, by what it may do for the whole.

In: the graph, what was measured of the machine and the reference, and what was judged so far. Out: ideas,
each with the factor on the whole task that it promises (Amdahl's law). Where a candidate was profiled the
promise is made in its place: the time that the best candidate spends on the region now, less what the
profile says could go. A region near its limit gets no idea.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...facts import Facts
from ...kernels.anchored import AnchoredFamily
from ...kernels.costs import aten_us, floor_us, node_us
from ...kernels.family import Family, Technique
from ...kernels.fold.fold import FOLD
from ...kernels.library.library import LIBRARY
from ...kernels.registry import families_of, family_of
from ...records import Graph, Hypothesis, Region, RegionProfile, Result
from ...records.intervals import find_worth
from ..findings import Finding, fastest, findings, list_settled
from .planner import Plan
from .steps import favours, steps

History = Sequence[tuple[Hypothesis | None, Result]]
EFFICIENCY = 0.7  # share of the bandwidth limit that a good kernel reaches, until measured
# Tunables whose other values are tried first come first: groups, and within one the order of ties.
TUNABLE_ORDER = (
    ("BLOCK", "BM", "BN", "CLUSTER", "MMA_TILES_PER_WARP", "GROUP", "HEADS", "TILE_PIXELS", "WM"),
    ("CHANNELS", "SPLIT", "MMA_TILES_M", "ROWS_PER_GROUP", "CONSUMER_GROUPS", "ROWS_IN_FLIGHT", "UNROLL"),
    ("PREFETCH_STEPS", "BK", "PIXELS_D", "PLANES_PER_BLOCK", "PLANES_PER_THREAD", "SMEM_KIB", "K_STEPS_PER_STAGE", "STAGES", "SWEEP", "TILE",
     "BLOCK_COLUMNS", "PIXELS_W"),
    ("CHUNK",), ("NT",), ("VEC",), ("GRAIN",),
)  # fmt: skip
RANK_OF_TUNABLE = {
    name: (group, i) for group, names in enumerate(TUNABLE_ORDER) for i, name in enumerate(names)
}
LAST = len(TUNABLE_ORDER), 0


@dataclass(frozen=True)
class Idea:
    """A technique for a region, with the tunables it starts from, and the finding that speaks for it."""

    region: Region
    family: Family
    technique: Technique
    rank: float
    because: Finding | None = None

    @property
    def values(self) -> dict[str, int]:
        return {t.name: t.value for t in self.technique.tunables}

    @property
    def key(self) -> tuple[object, ...]:
        return key_of(self.region.id, self.family.name, self.technique.name, self.values)


@dataclass(frozen=True)
class Known:
    """What was judged so far, as far as it decides what comes next."""

    ratios: Mapping[tuple[str, str], float] = field(default_factory=dict)  # see `_ratios`
    units: Mapping[tuple[str, str], RegionProfile] = field(default_factory=dict)  # the fastest of a technique
    regions: Mapping[str, RegionProfile] = field(default_factory=dict)  # the fastest of a region
    closed: Mapping[str, Finding] = field(default_factory=dict)  # regions that are left alone, and why
    best: Result | None = None  # the fastest that was profiled


def summarise_history(history: History, steered: bool = True) -> Known:
    """`steered`: whether regions near their limit are closed."""
    results = [result for _, result in history]
    units: dict[tuple[str, str], RegionProfile] = {}
    for result in results:
        for profile in fastest([result]).values():
            key = (profile.region, profile.technique)
            if key not in units or profile.seconds < units[key].seconds:
                units[key] = profile
    timed = [r for r in results if r.status == "ok" and r.speedup is not None and r.profile is not None]
    best = max(timed, key=lambda r: find_worth(r.speedup), default=None)
    return Known(_ratios(history), units, fastest(results), list_settled(results) if steered else {}, best)


def ideas(graph: Graph, facts: Facts, known: Known, planned: Iterable[Plan]) -> list[Idea]:
    """Every technique of every region of the plans; of those that worked also the neighbours in their
    tunables. Best first.
    """
    regions = {r.id: r for plan in planned for r in plan}
    gains = Place(graph, facts, regions, known.best)
    best_of: dict[tuple[object, ...], Idea] = {}
    for region in regions.values():
        offered = (
            (family, technique)
            for family in ([] if region.id in known.closed else _families(graph, region, facts.target))
            for technique in family.techniques(graph, region, facts)
        )
        for family, technique in offered:
            if known.ratios.get((region.id, technique.name)) != 0.0:
                for idea in _develop(gains, region, family, technique, known):
                    if idea.key not in best_of or idea.rank > best_of[idea.key].rank:
                        best_of[idea.key] = idea
    return sorted(best_of.values(), key=lambda i: -i.rank)


def _develop(
    gains: Place, region: Region, family: Family, technique: Technique, known: Known
) -> Iterator[Idea]:
    ratio, unit = known.ratios.get((region.id, technique.name)), known.units.get((region.id, technique.name))
    if unit is not None:
        yield from _refine(gains, region, family, technique, unit)
    elif ratio is not None:
        rank = 0.5 * (gains.predict_gain(region, technique) + ratio)
        for i, variant in enumerate(variants(technique)):
            yield Idea(region, family, variant, rank * (1.0 - 0.01 * i))
    else:
        measured = known.regions.get(region.id)
        rank, because = gains.predict_gain(region, technique), None
        if measured is not None:
            because = next((f for f in findings(measured) if favours(f, technique, measured)), None)
        if measured is not None and because is not None:
            rank = max(rank, gains.gain(region, measured.seconds * 1e6 / because.gain))
        yield Idea(region, family, technique, rank, because)


def _refine(
    gains: Place, region: Region, family: Family, technique: Technique, unit: RegionProfile
) -> Iterator[Idea]:
    """Steps that the profile of the technique's fastest unit speaks for; then the other neighbours of its
    values.
    """
    current, us = technique.at(unit.current_values), unit.seconds * 1e6
    for values, finding in steps(current, findings(unit)):
        yield Idea(region, family, current.at(values), gains.gain(region, us / finding.gain), finding)
    for i, variant in enumerate(variants(current)):
        yield Idea(region, family, variant, gains.gain(region, us * (1.0 + 0.01 * i)))


class Place:
    """Where an idea would go: into the best candidate so far, or into the reference."""

    def __init__(
        self, graph: Graph, facts: Facts, regions: Mapping[str, Region], best: Result | None
    ) -> None:
        self.graph, self.facts = graph, facts
        timing = best.timing if best is not None else None
        ratio = best.promise if best is not None else None
        self.total = timing.median_us if timing is not None else 0.0
        self.reference = self.total * ratio.median if ratio is not None else 0.0
        profiles = best.profile.regions if best is not None and best.profile is not None else ()
        self.units = [(regions[p.region], p.seconds * 1e6) for p in profiles if p.region in regions]

    def predict_gain(self, region: Region, technique: Technique) -> float:
        """Gain of a technique that was never tried: its region near its limit, unless the technique says what it takes."""
        if technique.us is not None:
            return self.gain(region, technique.us)
        prior = technique.gain
        us = floor_us(self.graph, region, self.facts) / (EFFICIENCY * min(1.0, prior))
        return self.gain(region, us) * (1.0 + 0.01 * prior)

    def gain(self, region: Region, us: float) -> float:
        """Amdahl: how much faster than the reference the whole is when a unit of `us` microseconds covers the
        region.
        """
        call = self.facts.hardware.in_candidate_us(us) - us
        if not self.total:
            before = aten_us(self.graph, region, self.facts)
            total = max(self.facts.total_us, before) if self.facts.total_us else self._reference_us()
            return (total + call) / (total - before + us + call)
        return self.reference / self.whole_us(region, us)

    def whole_us(self, region: Region, us: float) -> float:
        """Microseconds of the best candidate with a unit of `us` for the region."""
        unit_us = self.facts.hardware.in_candidate_us(us)
        return max(self.total - self.spent(region) + unit_us + self._uncovered_us(region), unit_us)

    def spent(self, region: Region) -> float:
        """Microseconds that the best candidate spends on what a unit for the region would replace."""
        replaced = self._find_replaced(region)
        inside = {n for r, _ in replaced for n in r.nodes}
        aten = sum(self._node_us(n) for n in region.nodes if n not in inside)
        return aten + sum(self.facts.hardware.in_candidate_us(us) for _, us in replaced)

    def _uncovered_us(self, region: Region) -> float:
        """Sum the microseconds of the nodes that fall back to ATen: those of units that have to go, outside of the region."""
        uncovered = {n for r, _ in self._find_replaced(region) for n in r.nodes} - set(region.nodes)
        return sum(self._node_us(n) for n in uncovered)

    def _find_replaced(self, region: Region) -> list[tuple[Region, float]]:
        nodes = set(region.nodes)
        return [(r, us) for r, us in self.units if nodes & set(r.nodes)]

    def _node_us(self, name: str) -> float:
        return node_us(self.graph, self.graph.by_name[name], self.facts)

    def _reference_us(self) -> float:
        return sum(node_us(self.graph, n, self.facts) for n in self.graph.nodes)


def _families(graph: Graph, region: Region, target: str) -> list[Family]:
    """The region's own; folding, which leaves to the library what a family around an anchor writes anew; and on a GPU other
    calls of the library.
    """
    family = family_of(graph, region, target)
    if family is None:
        return []
    further = [FOLD] if isinstance(family, AnchoredFamily) else []
    return [
        family,
        *further,
        *([LIBRARY] if family is not LIBRARY and LIBRARY.name in families_of(target) else []),
    ]


def key_of(region: str, family: str, technique: str, values: Mapping[str, int]) -> tuple[object, ...]:
    """Return the key that two ideas share when they propose the same unit; `region`: its id."""
    return region, family, technique, tuple(sorted(values.items()))


def variants(technique: Technique) -> list[Technique]:
    """The technique at its values, then at each other value of one tunable, the tunables that matter most
    first.
    """
    moves = [
        (position, RANK_OF_TUNABLE.get(t.name, LAST), t.name, value)
        for t in technique.tunables
        for position, value in enumerate(v for v in t.domain if v != t.value)
    ]
    base = {t.name: t.value for t in technique.tunables}
    return [technique, *(technique.at(base | {name: value}) for _, _, name, value in sorted(moves))]


def _ratios(history: History) -> dict[tuple[str, str], float]:
    """(region, technique) → what is sure of its best speedup over the best baseline; 0 when everything tried of it failed."""
    ratios: dict[tuple[str, str], float] = {}
    for hypothesis, result in history:
        if hypothesis is not None:
            ratio = find_worth(result.promise)
            if ratio == 0.0 and result.promise is not None:
                continue  # it works, and nothing is known of its speed
            key = (hypothesis.region.id, hypothesis.technique)
            ratios[key] = max(ratios.get(key, 0.0), ratio)
    return ratios
