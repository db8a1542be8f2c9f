"""A run's reasoning as a chain: each hypothesis with its evidence, what was measured of it, what that
taught, and what was proposed next.

In: what a run judged, in order. Out: `ChainStep`s, one a hypothesis (with the values that were then tried
of it), and the lines in which every format prints one. What was learnt is what the agents read in the
profile (`agents/findings.py`). Results without a profile, from before there was one, teach by their speed
alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ..agents.findings import findings, summary
from ..archive import Entry
from ..records import Hypothesis
from ..wording import baseline_name, interval, label, share
from .blocks import ChainStep
from .parts import find_entry_worth

TITLE = "What was tried, why, and what it taught"


def chain(entries: Sequence[Entry]) -> tuple[ChainStep, ...]:
    """In the order in which the hypotheses were first judged."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    bests: dict[tuple[str, str], float] = {}  # what was sure of the fastest before the group began
    best = 0.0
    for entry in (e for e in entries if e.kind != "confirmation"):
        key = (entry.candidate.lineage.hypothesis, entry.candidate.lineage.branch)
        groups.setdefault(key, []).append(entry)
        bests.setdefault(key, best)
        best = max(best, find_entry_worth(entry))
    said: set[str] = set()
    steps = [_step(n, group, said, bests[key]) for n, (key, group) in enumerate(groups.items(), 1)]
    nodes = [_nodes(group) for group in groups.values()]
    return tuple(s.model_copy(update={"next": _followers(s, steps, nodes)}) for s in steps)


def lines(step: ChainStep) -> Iterator[tuple[str, str]]:
    """(what it is, text): the step as it is printed under its title."""
    for text in step.evidence:
        yield "because", text
    outcomes = ", ".join(f"{count} {status}" for status, count in step.judged.items())
    if step.measured is None:
        yield "result", outcomes
    else:
        over = f"{interval(step.measured)} over {baseline_name(step.measured.baseline)}"
        limit = f", {share(step.limit_share)} of the limit" if step.limit_share else ""
        yield "result", f"{outcomes}; fastest #{step.candidate}: {over}{limit}"
    for text in step.learnt:
        yield "learnt", text
    if step.next:
        yield "next", "step " + ", ".join(str(n) for n in step.next)


def heading(step: ChainStep) -> str:
    bound = f", {step.bottleneck}-bound" if step.bottleneck else ""
    gain = f", promises {step.expected_gain:.2f}×" if step.expected_gain else ""
    return f"{step.title} (round {step.round}, {step.operator}{bound}{gain})"


def _step(number: int, group: list[Entry], told: set[str], best: float) -> ChainStep:
    """`told`: evidence that earlier steps printed, which grows. `best`: what was sure of the fastest before it."""
    first, idea = group[0].candidate.lineage, _idea(group[0])
    fastest = max(
        (e for e in group if _speedup(e) > 0), key=lambda e: (find_entry_worth(e), _speedup(e)), default=None
    )
    timing = fastest.result.timing if fastest is not None else None
    said = idea.evidence if idea is not None else (first.reason,) if first.reason else ()
    fresh = tuple(dict.fromkeys(text for text in said if text not in told))
    told.update(fresh)
    return ChainStep(
        number=number, round=first.round, title=_title(group[0], idea), operator=first.operator,
        bottleneck=idea.bottleneck if idea else "", expected_gain=idea.expected_gain if idea else 0.0,
        evidence=fresh, judged=dict(Counter(e.result.status for e in group)),
        measured=fastest.result.speedup if fastest else None,
        limit_share=timing.limit_share if timing else 0.0,
        candidate=fastest.number if fastest else 0, learnt=tuple(_learnt(group, fastest, idea, best)),
    )  # fmt: skip


def _learnt(group: list[Entry], fastest: Entry | None, idea: Hypothesis | None, best: float) -> Iterator[str]:
    if fastest is None:
        (status, reason), _ = Counter((e.result.status, e.result.reason) for e in group).most_common(1)[0]
        yield f"{status}: {reason}"
        return
    yield _describe_comparison(find_entry_worth(fastest), best)
    profile = fastest.result.profile
    for region_profile in profile.regions if profile is not None else ():
        if idea is None or region_profile.region == idea.region.id:
            yield f"{region_profile.technique or 'unit'}: {summary(region_profile)}"
            yield from (finding.text for finding in findings(region_profile))
    if len(group) > 1 and fastest is not group[0] and (values := _values(fastest)):
        yield f"fastest at {values}"


def _describe_comparison(speed: float, best: float) -> str:
    if not best:
        return "the first that is correct"
    if speed > best:
        return f"surely at {speed:.2f}×, more than anything before it ({best:.2f}×)"
    return f"surely at {speed:.2f}×, no more than the best before it ({best:.2f}×)"


def _followers(step: ChainStep, steps: Sequence[ChainStep], nodes: Sequence[set[str]]) -> tuple[int, ...]:
    """Steps of the next round that went on with any of the same nodes."""
    neighbours = nodes[step.number - 1]
    later = [s for s in steps if s.round > step.round and nodes[s.number - 1] & neighbours]
    soonest = min((s.round for s in later), default=0)
    return tuple(s.number for s in later if s.round == soonest)


def _idea(entry: Entry) -> Hypothesis | None:
    """The hypothesis that a candidate was made for; a seed of several regions stands for no single one."""
    idea, lineage = entry.hypothesis, entry.candidate.lineage
    several = lineage.operator == "seed" and len(entry.candidate.units) > 1
    return None if several else idea


def _title(entry: Entry, idea: Hypothesis | None) -> str:
    if idea is None:
        return label(entry.candidate)
    values = " ".join(f"{n}={v}" for n, v in idea.values.items())
    return f"{idea.technique} for {idea.region.title}" + (f" at {values}" if values else "")


def _nodes(group: list[Entry]) -> set[str]:
    idea = _idea(group[0])
    regions = [idea.region] if idea is not None else [u.region for u in group[0].candidate.units]
    return {name for region in regions for name in region.nodes}


def _values(entry: Entry) -> str:
    return " ".join(f"{n}={v}" for u in entry.candidate.units for n, v in u.values.items())


def _speedup(entry: Entry) -> float:
    ratio = entry.result.speedup
    return ratio.median if entry.result.status == "ok" and ratio is not None else 0.0
