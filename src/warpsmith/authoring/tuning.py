"""Which values of a candidate's tunables to screen next.

In: the candidate, what was screened of it so far, the tuner by name. Out: the next settings as candidates whose parent it is. Units are tuned
in turn, each at the best values of the others. The same results lead to the same proposals, so that a job that is done again after a kill
goes the same way.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from .. import plugins
from ..records import Candidate, Result, Unit
from ..search.tuner import Tuner

SETTINGS_AT_ONCE = 6
Tried = Sequence[tuple[Candidate, Result]]  # the candidate as it was handed in comes first


def propose_settings(base: Candidate, tried: Tried, most: int, tuner: str) -> list[Candidate]:
    """Propose settings that were not screened; empty: as many as wanted were, or there are no more."""
    room = min(SETTINGS_AT_ONCE, most - (len(tried) - 1))
    tunable = [unit_index for unit_index, unit in enumerate(base.units) if unit.tunables]
    if room <= 0 or not tunable:
        return []
    strategy: Tuner = plugins.load("tuners", tuner)()
    best = min(tried, key=lambda pair: find_sure_us(pair[1]))[0]
    tried_keys = {candidate.content_key for candidate, _ in tried}
    turn = len(tried) // SETTINGS_AT_ONCE
    for unit_index in [tunable[(turn + step) % len(tunable)] for step in range(len(tunable))]:
        rng = random.Random(f"{base.id} {unit_index} {len(tried)}")
        units = strategy.propose(best.units[unit_index], _score(best, tried, unit_index), room, rng)
        batch = [_derive(base, best, unit_index, unit) for unit in units]
        if fresh := [c for c in batch if c.content_key not in tried_keys]:
            return fresh
    return []


def find_sure_us(result: Result) -> float:
    """Return the high end of the time; infinity for a failure."""
    return result.timing.high_us if result.passed and result.timing is not None else float("inf")


def _score(best: Candidate, tried: Tried, unit_index: int) -> list[tuple[dict[str, int], float]]:
    """(values, score) of one unit where the others have the best values; a failure has the score 0."""
    fixed_units = [u.code_key for p, u in enumerate(best.units) if p != unit_index]
    return [
        (candidate.units[unit_index].values, 1e6 / find_sure_us(result))
        for candidate, result in tried
        if [u.code_key for p, u in enumerate(candidate.units) if p != unit_index] == fixed_units
    ]


def _derive(base: Candidate, best: Candidate, unit_index: int, unit: Unit) -> Candidate:
    units = tuple(unit if p == unit_index else u for p, u in enumerate(best.units))
    values = ", ".join(f"{name}={value}" for name, value in unit.values.items())
    changes = {"parents": (base.id,), "operator": "tune", "agent": "tuner", "reason": f"tuned: {values}"}
    return base.model_copy(update={"units": units, "lineage": base.lineage.model_copy(update=changes)})
