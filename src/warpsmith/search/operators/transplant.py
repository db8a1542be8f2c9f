"""Transplant: transfer seeds, units that were sound on regions of other tasks, made to fit regions of this one.

A transfer_seed's technique is written anew for the region, from the transfer_seed's values; a general source for a region of the very same
signature is moved over as it is where nobody can write it. Whatever comes of it is judged like any other candidate before it
counts. Its lineage names the candidate that the transfer_seed is from. Where units of other tasks were timed, and writing costs no question,
what these promise takes the place of transfer_seeds (`predict.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from ...records import Hypothesis, Lineage, Region, Unit
from .base import Proposal, SearchContext, TransferSeed, assemble, insert
from .seed import pick_first_units

MAX_SEEDS_PER_REGION = 4  # for a region
Grown = tuple[Unit, TransferSeed]


class Transplant:
    name = "transplant"
    everywhere = True

    def applies(self, context: SearchContext) -> bool:
        if context.experience is not None and context.experience.elsewhere and not context.asks:
            return False
        return any(context.transfer_seeds(region) for plan in self._plans(context) for region in plan)

    def propose(self, context: SearchContext, n: int) -> list[Proposal]:
        """Whole cuts of the graph in the first round, so that all transfer_seeds are tried together; then one at a time."""
        first = not (context.situation.round and context.population.best()) and not context.asks
        proposals = self._cuts(context) if first else []
        return (proposals or self._singly(context))[:n]

    def _cuts(self, context: SearchContext) -> list[Proposal]:
        """Each cut that has transfer_seeds, filled with the first of each region; then with the second."""
        ideas = context.team.reasoning.propose(context.situation, 1_000)
        proposals: list[Proposal] = []
        for number, plan in enumerate(self._plans(context)):
            columns = {region: list(adapt_seeds(context, region)) for region in plan}
            for row in range(max(map(len, columns.values()), default=0)):
                picked = [c[min(row, len(c) - 1)] for c in columns.values() if c]
                fillers = [pick_first_units(context, ideas, r, 1) for r, c in columns.items() if not c]
                units = [*(u for u, _ in picked), *(u for filler in fillers for _, u in filler)]
                lineage = _lineage([transfer_seed for _, transfer_seed in picked])
                proposals.append(Proposal(assemble(context.situation, units, lineage), None, number))
        return sorted(proposals, key=lambda b: -len(b.candidate.lineage.parents))

    def _singly(self, context: SearchContext) -> list[Proposal]:
        regions = {r.id: r for plan in self._plans(context) for r in plan if context.open(r)}
        proposals: list[Proposal] = []
        columns = [self._new(context, region) for region in regions.values()]
        for row in zip_longest(*columns):
            for unit, transfer_seed in (pair for pair in row if pair is not None):
                island, parent = context.find_host(unit.region)
                child = insert(context.situation, parent, [unit], _lineage([transfer_seed]))
                proposals.append(Proposal(child, None, island))
        return proposals

    def _new(self, context: SearchContext, region: Region) -> list[Grown]:
        judged = context.list_judged_keys(region)
        return [
            (unit, transfer_seed)
            for unit, transfer_seed in adapt_seeds(context, region)
            if unit.code_key not in judged
        ]

    def _plans(self, context: SearchContext) -> list[tuple[Region, ...]]:
        return context.team.reasoning.plans(context.situation, context.team.orchestrator.branches)


def adapt_seeds(context: SearchContext, region: Region) -> Iterator[Grown]:
    """Different units for the region, from its most telling transfer_seeds that something can be made of."""
    keys: set[str] = set()
    for transfer_seed in _fitting(context, region):
        unit = respecialise(context, transfer_seed, region) or move_unit(transfer_seed, region)
        if unit is not None and unit.code_key not in keys:
            keys.add(unit.code_key)
            yield unit, transfer_seed
        if len(keys) >= MAX_SEEDS_PER_REGION:
            return


def _fitting(context: SearchContext, region: Region) -> list[TransferSeed]:
    """Keep the seeds of families that the agents themselves would take for the region, where units cost no question."""
    transfer_seeds = list(context.transfer_seeds(region))
    if context.asks or not transfer_seeds:
        return transfer_seeds
    families = {
        h.family for h in context.team.reasoning.propose(context.situation, 1_000) if h.region == region
    }
    return [s for s in transfer_seeds if s.unit.family in families or s.alike >= 1.0]


def respecialise(context: SearchContext, transfer_seed: TransferSeed, region: Region) -> Unit | None:
    """The transfer_seed's technique written for this region; None where that is not possible, or costs a question."""
    if context.asks:
        return None
    unit, situation = transfer_seed.unit, context.situation
    idea = Hypothesis(
        region=region, family=unit.family, technique=unit.technique, bottleneck="unknown",
        expected_gain=min(max(1.0, transfer_seed.speedup), situation.most_gain), evidence=(describe_seed(transfer_seed),), values=unit.current_values,
    )  # fmt: skip
    written = context.team.synthesis.write(situation.graph, idea, 1, situation)
    return _apply_flags(context, written[0], transfer_seed) if written else None


def _apply_flags(context: SearchContext, unit: Unit, transfer_seed: TransferSeed) -> Unit:
    """With the transfer_seed's compiler flags, where they are on offer for this unit."""
    flags = set(transfer_seed.unit.flags)
    same = (u for u in context.team.compile.flag_variants(unit) if set(u.flags) == flags)
    return next(same, unit)


def move_unit(transfer_seed: TransferSeed, region: Region) -> Unit | None:
    """The transfer_seed's own source, where it is general and the region has the same operands."""
    unit = transfer_seed.unit
    if (
        transfer_seed.alike < 1.0
        or unit.requires
        or not unit.compiled
        or unit.region.signature != region.signature
    ):
        return None
    return unit.model_copy(update={"region": region})


def describe_seed(transfer_seed: TransferSeed) -> str:
    values = " ".join(f"{n}={v}" for n, v in transfer_seed.unit.values.items())
    how = f"{transfer_seed.unit.family}/{transfer_seed.unit.technique} {values}".strip()
    where = (
        "a region of the same signature"
        if transfer_seed.alike >= 1.0
        else f"a region {transfer_seed.alike:.0%} alike"
    )
    return f"{how} was sound on {where} of another task, in a candidate at {transfer_seed.speedup:.2f}x"


def _lineage(transfer_seeds: list[TransferSeed]) -> Lineage:
    return Lineage(
        operator="transplant", agent="orchestrator", parents=tuple(dict.fromkeys(s.candidate_id for s in transfer_seeds)),
        reason="; ".join(dict.fromkeys(describe_seed(s) for s in transfer_seeds))[:1200],
    )  # fmt: skip
