"""Judged candidates on a chain of elementwise operations, made up to the number: no brain, no judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpsmith.agents.base import Attempt, Situation
from warpsmith.facts import Facts
from warpsmith.records import (
    Candidate,
    Limit,
    Lineage,
    Profile,
    Ratio,
    RegionProfile,
    Result,
    Timing,
    Tunable,
    Unit,
    Verdict,
)
from warpsmith.testing import chain_region, chain_task, scripted_result

TASK = chain_task(("aten.exp.default", "aten.neg.default", "aten.tanh.default"))
TOTAL_US = 100.0  # of every candidate that is not told otherwise
Spans = Sequence[tuple[int, int]]


def unit(span: tuple[int, int] = (0, 2), technique: str = "a", source: str = "", **values: int) -> Unit:
    tunables = tuple(Tunable(name=n, domain=(1, 2, 4, 8), value=v) for n, v in values.items())
    return Unit(
        region=chain_region(TASK.graph, *span), language="c++", source=source or f"float {technique}() {{ return 1; }}",
        tunables=tunables, family="fake", technique=technique,
    )  # fmt: skip


def candidate(units: Sequence[Unit], operator: str = "rewrite", **lineage: object) -> Candidate:
    branch = " + ".join(f"{u.technique}@{u.region.id[:6]}" for u in units)
    made = Lineage.model_validate({"operator": operator, "branch": branch, **lineage})
    return Candidate(task_id=TASK.id, target="cpu", units=tuple(units), lineage=made)


def attempt(
    speed: float, units: Sequence[Unit] | None = None, *, low: float | None = None, high: float | None = None,
    us: Mapping[int, float] | None = None, shares: Mapping[int, float] | None = None, total: float = TOTAL_US,
    bottleneck: str = "memory", limit_share: float = 0.0,
) -> Attempt:  # fmt: skip
    """`us`: time of a unit alone, by its place among `units`; `shares`: of its limit, which makes a profile."""
    units = [unit()] if units is None else units
    ratio = Ratio(baseline="eager", median=speed, low=low or 0.98 * speed, high=high or 1.02 * speed)
    alone = {units[i].region.id: t for i, t in (us or {}).items()}
    timing = Timing(
        median_us=total,
        low_us=total,
        high_us=total,
        cache="cold",
        samples=10,
        ratios=(ratio,),
        unit_us=alone,
        limit_share=limit_share,
    )
    made = candidate(units)
    seen = tuple(
        RegionProfile(
            region=units[i].region.id, seconds=(us or {}).get(i, total) * 1e-6, least_bytes=1000, flops=1000,
            limit_share=share, bottleneck=bottleneck, technique=units[i].technique, values=units[i].values,
        )
        for i, share in (shares or {}).items()
    )  # fmt: skip
    result = Result(
        candidate_id=made.id, content_key=made.content_key, task_id=TASK.id, target="cpu", status="ok",
        verdict=Verdict(correct=True, checks=()), timing=timing, profile=Profile(regions=seen) if seen else None,
    )  # fmt: skip
    return Attempt(made, result)


def failure(units: Sequence[Unit] | None = None) -> Attempt:
    made = candidate([unit()] if units is None else units)
    return Attempt(made, scripted_result(made, "incorrect"))


def situation(
    attempts: Sequence[Attempt], round: int = 3, node_us: float = 10.0, limit_us: float = 1.0
) -> Situation:
    facts = Facts(
        threads=2, bandwidth=1e12, flop_rate=1e15, total_us=TOTAL_US, limit_us=limit_us,
        node_us={n.name: node_us for n in TASK.graph.nodes},
    )  # fmt: skip
    limit = Limit(
        seconds=limit_us * 1e-6,
        least_bytes=1,
        flops=1,
        bytes_per_second=1e12,
        flops_per_second=1e15,
        bound="memory",
    )
    return Situation(TASK, "cpu", facts, limit, tuple(attempts), round)
