"""The expert's answers to the agents: hypotheses from measured evidence, units from hypotheses, repairs
from failures.

In: the graph, what was measured (`Facts`), what was judged already. Out: records. What may help is ranked
in `ideas.py` and argued in `reasons.py`; `steps.py` says which step a measured finding speaks for. What was
measured replaces what was assumed: a technique that was judged counts with its time, one that failed is not
offered again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

from ...codegen.program import Unsupported
from ...facts import Facts, local_facts
from ...kernels.family import Technique
from ...kernels.registry import families_of, target_of
from ...records import Diagnostic, Graph, Hypothesis, Region, RegionProfile, Result, Unit
from ..base import Attempt, Situation
from .edits import neighbours
from .ideas import History, Idea, Known, ideas, key_of, summarise_history, variants
from .planner import Plan, Planner, plans
from .reasons import evidence
from .review import review
from .steps import CUDA_FLAGS, flag_order

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
    situation it saw, and the plans for it.
    """

    def __init__(self, facts: Facts | None = None) -> None:
        self._facts = facts
        self._planner = Planner()

    def plans(self, graph: Graph, facts: Facts) -> list[tuple[Region, ...]]:
        self._facts = facts
        return self._planner.plans(graph, facts)

    def hypotheses(self, situation: Situation, k: int) -> list[Hypothesis]:
        self._facts = situation.facts
        history = [(a.hypothesis, a.result) for a in situation.attempts]
        planned = self._planner.plans(situation.graph, situation.facts)
        return hypotheses(situation.graph, situation.facts, history, k, planned, situation.steered)

    def write_units(
        self, graph: Graph, hypothesis: Hypothesis, m: int, situation: Situation | None = None
    ) -> list[Unit]:
        return write_units(graph, hypothesis, m, self._facts)

    def edit_unit(self, situation: Situation, parent: Attempt, unit: Unit, m: int) -> list[tuple[Unit, str]]:
        hypotheses = neighbours(situation.graph, situation.facts, unit, parent.find_profile(unit))
        edited = (
            (u, h.evidence[0]) for h in hypotheses for u in self.write_units(situation.graph, h, 1, situation)
        )
        return [(u.model_copy(update={"flags": unit.flags}), why) for u, why in islice(edited, m)]

    def combine_units(
        self, situation: Situation, parents: Sequence[tuple[Attempt, Unit]], m: int
    ) -> list[Unit]:
        return []  # it joins regions and values, never two sources

    def repair_build(self, unit: Unit, diagnostics: Sequence[Diagnostic]) -> Unit | None:
        return repair_build(unit, diagnostics)

    def flag_variants(self, unit: Unit, seen: RegionProfile | None = None) -> list[tuple[str, ...]]:
        return flag_variants(unit, seen)

    def review(self, unit: Unit) -> list[str]:
        return review(unit)

    def repair_wrong(self, graph: Graph, unit: Unit, rule: str, family: str) -> Hypothesis | None:
        return repair_wrong(graph, unit, rule, family)

    def mend(self, unit: Unit, result: Result) -> Unit | None:
        return None  # it writes anew, by a safer hypothesis


def hypotheses(
    graph: Graph, facts: Facts, history: History, k: int, planned: Iterable[Plan] | None = None, steered: bool = True
) -> list[Hypothesis]:  # fmt: skip
    """At most `k` that were not judged yet, best first. `planned`: what `plans` says, if it is known. `steered`: none for
    regions near their limit.
    """
    known = summarise_history(history, steered)
    tried = {
        key_of(h.region.id, h.family, h.technique, h.current_values) for h, _ in history if h is not None
    }
    tried |= {
        key_of(p.region, p.family, p.technique, p.current_values)
        for _, result in history
        for p in (result.profile.regions if result.profile is not None else ())
    }
    ranked = ideas(graph, facts, known, plans(graph, facts) if planned is None else planned)
    fresh = [idea for idea in ranked if idea.key not in tried]
    return [_hypothesis(graph, facts, idea, known) for idea in fresh[:k]]


def write_units(graph: Graph, hypothesis: Hypothesis, m: int, facts: Facts | None = None) -> list[Unit]:
    """At most `m` variants: the hypothesis' own values, then one tunable at a time moved off them. Empty when
    not writable.
    """
    facts = facts or local_facts()
    family = families_of(facts.target).get(hypothesis.family)
    if family is None:
        return []
    offered = family.techniques(graph, hypothesis.region, facts)
    technique = next((t for t in offered if t.name == hypothesis.technique), None)
    if technique is None:
        return []
    try:
        return [
            family.write(graph, hypothesis.region, t)
            for t in variants(technique.at(hypothesis.current_values))[:m]
        ]
    except Unsupported:
        return []


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


def flag_variants(unit: Unit, seen: RegionProfile | None = None) -> list[tuple[str, ...]]:
    """Compiler flags worth a try on this unit, first those that its profile asks for."""
    order = CUDA_FLAGS if unit.language == "cuda" else flag_order(seen)
    return [(*unit.flags, flag) for flag in order if flag not in unit.flags]


def repair_wrong(graph: Graph, unit: Unit, rule: str, family: str) -> Hypothesis | None:
    """For wrong bytes: the plainest technique of the family, with short chunks and no streaming, unless this
    was it.
    """
    facts = replace(local_facts(), target=target_of(unit.language))
    found = families_of(facts.target).get(unit.family)
    offered = found.techniques(graph, unit.region, facts) if found is not None else []
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


def _hypothesis(graph: Graph, facts: Facts, idea: Idea, seen: Known) -> Hypothesis:
    technique = idea.technique
    return Hypothesis(
        region=idea.region, family=idea.family.name, technique=technique.name,
        bottleneck=technique.bottleneck, expected_gain=round(idea.rank, 3),
        evidence=evidence(graph, facts, idea, seen), values=idea.values,
    )  # fmt: skip
