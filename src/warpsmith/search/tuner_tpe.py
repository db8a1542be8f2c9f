"""A model-based tuner: the tree-structured Parzen estimator of Optuna (Bergstra et al., NeurIPS 2011; extra `search`)."""

from __future__ import annotations

import random
from importlib.util import find_spec
from typing import Any

from ..errors import UsageError
from ..records import Unit
from .tuner import Fresh, Tried, Values

STARTUP = 5  # settings tried before the model is asked
ASKED = 4  # times as many settings as are wanted may be asked for: some were tried already


class ParzenTuner:
    """It keeps nothing: what was tried is told to a new study each time, so that a resumed run goes as it went.

    Raises UsageError without Optuna.
    """

    def __init__(self) -> None:
        if find_spec("optuna") is None:
            raise UsageError("the tuner tpe needs Optuna: pip install 'warpsmith[search]'")

    def propose(self, unit: Unit, tried: Tried, n: int, rng: random.Random) -> list[Unit]:
        fresh = Fresh(unit, tried, n)
        if unit.tunables and len(tried) >= STARTUP:
            study, distributions = _study(unit, tried, rng)
            for _ in range(ASKED * n):
                suggestion = study.ask(distributions).params
                fresh.add({t.name: sorted(t.domain)[suggestion[t.name]] for t in unit.tunables})
        return fresh.fill(rng)


def _study(unit: Unit, tried: Tried, rng: random.Random) -> tuple[Any, Any]:
    """A study that knows what was tried; each tunable is a place in its sorted domain."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(
        seed=rng.getrandbits(31), n_startup_trials=STARTUP, constant_liar=True
    )
    study = optuna.create_study(direction="maximize", sampler=sampler)
    space: dict[str, Any] = {
        t.name: optuna.distributions.IntDistribution(0, len(t.domain) - 1) for t in unit.tunables
    }
    for values, score in tried:
        params = _places(unit, values)
        if params is not None:
            study.add_trial(optuna.trial.create_trial(params=params, distributions=space, value=score))
    return study, space


def _places(unit: Unit, values: Values) -> dict[str, int] | None:
    """None for a setting outside of the domains."""
    if any(values.get(t.name) not in t.domain for t in unit.tunables):
        return None
    return {t.name: sorted(t.domain).index(values[t.name]) for t in unit.tunables}
