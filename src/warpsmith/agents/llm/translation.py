"""A measure of how well a model turns modules into first working kernels: the first round of a run, counted.

In: the units that were asked for and what was judged. Out: a `Translation`. pass@k is the unbiased estimator of Chen et al.
2021, "Evaluating Large Language Models Trained on Code" (https://arxiv.org/abs/2107.03374), over first answers; a problem is
one region.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import comb

from ...records import Translation
from ..base import Attempt
from .memory import Sample


def translation(samples: Sequence[Sample], attempts: Sequence[Attempt]) -> Translation | None:
    """None when no unit was asked for in the first round."""
    first = [s for s in samples if s.round == 0]
    if not first:
        return None
    attempts = [a for a in attempts if not a.screened]  # of those nobody knows yet whether they are right
    written = {key for a in attempts if a.speedup > 0 for key in _written(a)}
    repaired = _find_repaired(attempts)
    counts: defaultdict[str, list[bool]] = defaultdict(list)
    for sample in first:
        counts[sample.region].append(sample.first and sample.unit in written)
    fewest = min(len(tries) for tries in counts.values())
    initial = next((a.speedup for a in attempts if a.speedup > 0), 0.0)
    return Translation(
        regions=len(counts), attempted=len(first),
        correct_first=sum(sum(tries) for tries in counts.values()),
        correct=sum(s.unit in written or s.unit in repaired for s in first),
        pass_at={k: _mean([pass_at(len(t), sum(t), k) for t in counts.values()]) for k in range(1, fewest + 1)},
        initial_speedup=initial,
    )  # fmt: skip


def pass_at(n: int, c: int, k: int) -> float:
    """The chance that one of `k` of `n` samples is correct, when `c` of the `n` are."""
    return 1.0 - comb(n - c, k) / comb(n, k)


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 6)


def _written(attempt: Attempt) -> list[str]:
    """Code keys of the units that a candidate has, as they were written."""
    return [u.code_key for u in attempt.candidate.units]


def _find_repaired(attempts: Sequence[Attempt]) -> set[str]:
    """Code keys of units that a repair, or a repair of a repair, made correct."""
    by_id = {a.candidate.id: a for a in attempts}
    repaired: set[str] = set()
    for attempt in attempts:
        ancestor: Attempt | None = attempt if attempt.speedup > 0 else None
        while ancestor is not None and ancestor.candidate.lineage.operator == "repair":
            ancestor = by_id.get(ancestor.candidate.lineage.parents[0])
            repaired.update(_written(ancestor) if ancestor is not None else ())
    return repaired
