"""A model-based tuner of a few lines: what each value of each tunable does to the time, as factors that multiply.

Tunables of one kernel act nearly apart from each other: a regression of the logarithm of the speed on one indicator for each value
predicts the settings that were not tried from those that were. Each proposal goes to the best setting of one draw from the
regression's posterior (Thompson sampling on a Bayesian linear model), which leaves room for what is not known yet.
"""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt

from ..records import Unit
from .tuner import Fresh, Tried, Values, every_setting

Floats = npt.NDArray[np.float64]
SPREAD = 0.3  # of the logarithm of an effect: what is expected before anything was tried
NOISE = 0.05  # of a measurement and of what tunables do together
FAILED = 4.0  # times slower than the slowest that worked


class Effects:
    def propose(self, unit: Unit, tried: Tried, n: int, rng: random.Random) -> list[Unit]:
        fresh, space = Fresh(unit, tried, n), every_setting(unit)
        valid = [(v, s) for v, s in tried if all(v.get(t.name) in t.domain for t in unit.tunables)]
        if space and any(score > 0 for _, score in valid):
            rows = _indicators(unit, space)
            mean, root = _posterior(_indicators(unit, [v for v, _ in valid]), _log_speeds(valid))
            normal = np.random.default_rng(rng.getrandbits(31))
            for _ in range(2 * n):
                drawn = rows @ (mean + root @ normal.standard_normal(len(mean)))
                for index in np.argsort(-drawn, kind="stable"):
                    if fresh.add(space[int(index)]):
                        break
        return fresh.fill(rng)


def _indicators(unit: Unit, settings: list[Values] | list[dict[str, int]]) -> Floats:
    """One row a setting: 1, then one column for each value of each tunable."""
    columns = [(t.name, value) for t in unit.tunables for value in t.domain]
    return np.array([[1.0, *(float(s[name] == value) for name, value in columns)] for s in settings])


def _log_speeds(known: Tried) -> Floats:
    worst = min(score for _, score in known if score > 0)
    logs = np.log([score if score > 0 else worst / FAILED for _, score in known])
    return logs - float(logs.mean())


def _posterior(rows: Floats, speeds: Floats) -> tuple[Floats, Floats]:
    """Mean of the effects, and a root of their covariance."""
    precision = np.eye(rows.shape[1]) / SPREAD**2 + rows.T @ rows / NOISE**2
    covariance = np.linalg.inv(precision)
    return covariance @ rows.T @ speeds / NOISE**2, np.linalg.cholesky(covariance)
