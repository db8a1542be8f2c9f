"""The expert's answers to the agents: hypotheses from measured evidence, units from hypotheses, repairs from
failures.

In: the graph, what was measured (`Facts`), what was judged already. Out: records. A hypothesis' expected gain
is a factor on the whole task: the region's share of the time, and how far it is from the time that moving its
bytes takes. What history measured replaces what was assumed: a technique that was judged counts with its
speedup, one that failed is not offered again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...progress import counted
from ...records import Diagnostic, Graph, Hypothesis, Region, Result, Unit
from ..base import Situation
from .facts import Facts, local_facts
from .families import FAMILIES, AnchoredFamily, Family, Technique
from .planner import aten_us, floor_us, node_us, plans, region_bytes
from .program import Unsupported
from .review import review

History = Sequence[tuple[Hypothesis | None, Result]]
EFFICIENCY = 0.7  # share of the bandwidth limit that a good kernel reaches, until measured
CALL_US = 4.0  # of a unit: allocation, ctypes, waking threads

__all__ = [
    "ExpertBrain",
    "History",
    "flag_variants",
    "hypotheses",
    "plans",
    "repair_build",
    "repair_wrong",
    "write_units",
]


class ExpertBrain:
    """The expert in all four roles (`agents.base.Brain`). It keeps nothing but the facts of the last
    situation it saw.
    """

    def __init__(self, facts: Facts | None = None) -> None:
        self._facts = facts

    def plans(self, graph: Graph, facts: Facts) -> list[tuple[Region, ...]]:
        self._facts = facts
        return plans(graph, facts)

    def hypotheses(self, situation: Situation, k: int) -> list[Hypothesis]:
        self._facts = situation.facts
        history = [(a.hypothesis, a.result) for a in situation.attempts]
        return hypotheses(situation.graph, situation.facts, history, k)

    def write_units(self, graph: Graph, hypothesis: Hypothesis, m: int) -> list[Unit]:
        return write_units(graph, hypothesis, m, self._facts)

    def repair_build(self, unit: Unit, diagnostics: Sequence[Diagnostic]) -> Unit | None:
        return repair_build(unit, diagnostics)

    def flag_variants(self, unit: Unit) -> list[tuple[str, ...]]:
        return flag_variants(unit)

    def review(self, unit: Unit) -> list[str]:
        return review(unit)

    def repair_wrong(self, graph: Graph, unit: Unit, rule: str, family: str) -> Hypothesis | None:
        return repair_wrong(graph, unit, rule, family)


@dataclass(frozen=True)
class _Idea:
    """A technique for a region, with the tunables it starts from."""

    region: Region
    family: Family
    technique: Technique
    rank: float

    @property
    def values(self) -> dict[str, int]:
        return {t.name: t.value for t in self.technique.tunables}

    @property
    def key(self) -> tuple[object, ...]:
        return _key(self.region, self.family.name, self.technique.name, self.values)


def hypotheses(graph: Graph, facts: Facts, history: History, k: int) -> list[Hypothesis]:
    """At most `k` that were not judged yet, best first; each region's best untried technique comes before its
    second.
    """
    tried = {_key(h.region, h.family, h.technique, h.values) for h, _ in history if h is not None}
    measured = _measured(history)
    ideas = [i for i in _ideas(graph, facts, measured) if i.key not in tried]
    chosen: list[_Idea] = []
    round_of: dict[str, int] = {}
    for idea in sorted(ideas, key=lambda i: -i.rank):
        round_of[idea.region.id] = round_of.get(idea.region.id, 0) + 1
        chosen.append(idea)
    chosen.sort(key=lambda i: -i.rank)
    return [_hypothesis(graph, facts, i, measured) for i in chosen[:k]]


def write_units(graph: Graph, hypothesis: Hypothesis, m: int, facts: Facts | None = None) -> list[Unit]:
    """At most `m` variants: the hypothesis' own values, then one tunable at a time moved off them. Empty when
    not writable.
    """
    family = FAMILIES.get(hypothesis.family)
    if family is None:
        return []
    offered = family.techniques(graph, hypothesis.region, facts or local_facts())
    technique = next((t for t in offered if t.name == hypothesis.technique), None)
    if technique is None:
        return []
    try:
        return [
            family.write(graph, hypothesis.region, t) for t in _variants(technique.at(hypothesis.values))[:m]
        ]
    except Unsupported:
        return []


def family_of(graph: Graph, region: Region) -> Family | None:
    """The most specific family that has something to offer for one of the region's nodes."""
    for family in FAMILIES.values():
        if not any(family.covers(graph, graph.by_name[n]) for n in region.nodes):
            continue
        if not isinstance(family, AnchoredFamily) or family.anchor(graph, region) is not None:
            return family
    return None


def repair_build(unit: Unit, diagnostics: Sequence[Diagnostic]) -> Unit | None:
    """A build that ran out of registers, time or memory gets smaller blocks; anything else is not the
    expert's to mend.
    """
    text = " ".join(d.message for d in diagnostics).lower()
    if not any(sign in text for sign in ("timed out", "killed", "out of memory", "spill")):
        return None
    smaller = {"UNROLL": 1, "BLOCK": 4, "SWEEP": 1}
    tunables = tuple(
        t.model_copy(update={"value": smaller[t.name]}) if smaller.get(t.name) in t.domain else t
        for t in unit.tunables
    )
    return unit.model_copy(update={"tunables": tunables}) if tunables != unit.tunables else None


def flag_variants(unit: Unit) -> list[tuple[str, ...]]:
    """Compiler flags worth a try on this kind of code."""
    offered = ["-mprefer-vector-width=512", "-fno-tree-vectorize", "-fprefetch-loop-arrays"]
    return [(*unit.flags, flag) for flag in offered if flag not in unit.flags]


def repair_wrong(graph: Graph, unit: Unit, rule: str, family: str) -> Hypothesis | None:
    """For wrong bytes: the plainest technique of the family, with short chunks and no streaming, unless this
    was it.
    """
    found = FAMILIES.get(unit.family)
    offered = found.techniques(graph, unit.region, local_facts()) if found is not None else []
    plain = next(
        (t for t in offered if t.shape.stash is False and t.shape.split is False and not t.single_pass), None
    )
    if plain is None or plain.name == unit.technique:
        return None
    values = {t.name: t.value for t in plain.tunables} | {
        "NT": 0,
        "CHUNK": min(_domain(plain, "CHUNK"), default=0),
    }
    return Hypothesis(
        region=unit.region, family=unit.family, technique=plain.name, bottleneck=plain.bottleneck,
        expected_gain=1.0,
        evidence=(f"{unit.technique} gave wrong bytes ({rule}, {family}): the plainest passes",),
        values={k: v for k, v in values.items() if v in _domain(plain, k)},
    )  # fmt: skip


def _domain(technique: Technique, name: str) -> tuple[int, ...]:
    return next((t.domain for t in technique.tunables if t.name == name), ())


def _key(region: Region, family: str, technique: str, values: dict[str, int]) -> tuple[object, ...]:
    return region.id, family, technique, tuple(sorted(values.items()))


def _measured(history: History) -> dict[tuple[str, str], float]:
    """(region, technique) → best speedup over the best baseline; 0 when everything tried of it failed."""
    found: dict[tuple[str, str], float] = {}
    for hypothesis, result in history:
        if hypothesis is not None:
            ratio = result.speedup.median if result.status == "ok" and result.speedup is not None else 0.0
            key = (hypothesis.region.id, hypothesis.technique)
            found[key] = max(found.get(key, 0.0), ratio)
    return found


def _ideas(graph: Graph, facts: Facts, measured: dict[tuple[str, str], float]) -> list[_Idea]:
    """Every technique of every region of the plans; of those that worked also the neighbours in their
    tunables.
    """
    regions = {r.id: r for plan in plans(graph, facts) for r in plan}
    found: list[_Idea] = []
    for region in regions.values():
        family = family_of(graph, region)
        if family is None:
            continue
        for technique in family.techniques(graph, region, facts):
            speed = measured.get((region.id, technique.name))
            gain = _whole_gain(graph, facts, region, technique.gain)
            if speed == 0.0:
                continue
            rank = gain if speed is None else 0.5 * (gain + speed)
            found.append(_Idea(region, family, technique, rank))
            if speed is not None:
                others = _variants(technique)[1:]
                found += [_Idea(region, family, t, rank * (0.99 - 0.01 * i)) for i, t in enumerate(others)]
    return found


def _variants(technique: Technique) -> list[Technique]:
    """The technique at its values, then at each other value of one tunable, the tunables that matter most
    first.
    """
    weight = {
        "BLOCK": 0,
        "UNROLL": 1,
        "SPLIT": 1,
        "SWEEP": 2,
        "TILE": 2,
        "CHUNK": 3,
        "NT": 4,
        "VEC": 5,
        "GRAIN": 6,
    }
    moves = [
        (position, weight.get(t.name, 9), t.name, value)
        for t in technique.tunables
        for position, value in enumerate(v for v in t.domain if v != t.value)
    ]
    base = {t.name: t.value for t in technique.tunables}
    return [technique, *(technique.at(base | {name: value}) for _, _, name, value in sorted(moves))]


def _whole_gain(graph: Graph, facts: Facts, region: Region, prior: float) -> float:
    """Amdahl: how much faster the whole gets when this region runs near its limit."""
    before = aten_us(graph, region, facts)
    total = max(facts.total_us, before) if facts.total_us else _total_us(graph, facts)
    after = floor_us(graph, region, facts) / (EFFICIENCY * min(1.0, prior)) + CALL_US
    return (total + CALL_US) / (total - before + after) * (1.0 + 0.01 * prior)


def _total_us(graph: Graph, facts: Facts) -> float:
    return sum(node_us(graph, n, facts) for n in graph.nodes)


def _hypothesis(
    graph: Graph, facts: Facts, idea: _Idea, measured: dict[tuple[str, str], float]
) -> Hypothesis:
    technique = idea.technique
    return Hypothesis(
        region=idea.region, family=idea.family.name, technique=technique.name,
        bottleneck=technique.bottleneck, expected_gain=round(idea.rank, 3),
        evidence=_evidence(graph, facts, idea, measured), values=idea.values,
    )  # fmt: skip


def _evidence(
    graph: Graph, facts: Facts, idea: _Idea, measured: dict[tuple[str, str], float]
) -> tuple[str, ...]:
    region = idea.region
    before, floor = aten_us(graph, region, facts), floor_us(graph, region, facts)
    moved, flops = region_bytes(graph, region), sum(graph.by_name[n].flops for n in region.nodes)
    lines = [
        f"{counted(len(region.nodes), 'node')} must move {moved / 1e6:.2f} MB and do {flops / 1e6:.1f} MFLOP; "
        f"at {facts.bandwidth / 1e9:.1f} GB/s that takes {floor:.0f} us"
    ]
    if all(n in facts.node_us for n in region.nodes):
        whom = "it" if len(region.nodes) == 1 else "them"
        share = f", {before / facts.total_us:.0%} of the reference" if facts.total_us else ""
        lines.append(
            f"ATen takes {before:.0f} us for {whom}{share}: {floor / max(before, 1e-9):.0%} of the limit"
        )
        if len(region.nodes) > 1:
            slow = max(region.nodes, key=lambda n: facts.node_us[n])
            lines.append(f"slowest node: {slow} ({graph.by_name[slow].op}), {facts.node_us[slow]:.0f} us")
    lines += [
        f"{name} was measured at {ratio:.2f}x"
        for (rid, name), ratio in measured.items()
        if rid == region.id and ratio
    ]
    return (*lines, idea.technique.why)
