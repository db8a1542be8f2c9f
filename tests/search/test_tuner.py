"""Every tuner keeps to the contract; each finds the best setting of a simple space in fewer steps than there are settings."""

import random
from collections.abc import Callable
from importlib.util import find_spec

import pytest

from warpsmith import plugins
from warpsmith.config import Config
from warpsmith.errors import UsageError
from warpsmith.search import tuner_tpe
from warpsmith.search.tuner import HillClimb, RandomSearch, Tuner, Values
from warpsmith.search.tuner_effects import Effects
from warpsmith.search.tuner_race import Racing
from warpsmith.search.tuner_tpe import ParzenTuner
from warpsmith.testing import TunerContract

needs_optuna = pytest.mark.skipif(find_spec("optuna") is None, reason="needs the extra [search]")


class TestHillClimb(TunerContract):
    def make(self) -> Tuner:
        return HillClimb()

    def test_climbs_from_the_best_tried(self) -> None:
        unit = self.unit()
        tried = [({"T0": 8, "T1": 8, "T2": 8}, 9.0), (unit.values, 1.0)]
        steps = [u.values for u in HillClimb().propose(unit, tried, 3, random.Random(0))]
        assert sorted(sorted(v.values()) for v in steps) == [[4, 8, 8]] * 3


class TestRandomSearch(TunerContract):
    def make(self) -> Tuner:
        return RandomSearch()


class TestEffects(TunerContract):
    def make(self) -> Tuner:
        return Effects()


class TestRacing(TunerContract):
    def make(self) -> Tuner:
        return Racing()


@needs_optuna
class TestParzen(TunerContract):
    def make(self) -> Tuner:
        return ParzenTuner()


def speed(values: Values) -> float:
    """Best at 8, 1, 4; each tunable by itself."""
    return 1.0 / (1.0 + (8 - values["T0"]) / 8 + (values["T1"] - 1) / 8 + abs(values["T2"] - 4) / 8)


def needed(tuner: Tuner, seed: int) -> int:
    """Settings tried until the best of the 64 is among them, two at a time."""
    unit, rng = TunerContract().unit(), random.Random(seed)
    tried: list[tuple[Values, float]] = []
    while not tried or max(score for _, score in tried) < 1.0:
        tried += [(u.values, speed(u.values)) for u in tuner.propose(unit, tried, 2, rng)]
    return len(tried)


@pytest.mark.parametrize(
    "make",
    [HillClimb, Effects, Racing, pytest.param(ParzenTuner, marks=needs_optuna)],
    ids=lambda m: m.__name__,
)
def test_a_strategy_needs_fewer_settings_than_chance(make: Callable[[], Tuner]) -> None:
    by_chance = sum(needed(RandomSearch(), seed) for seed in range(10))
    assert sum(needed(make(), seed) for seed in range(10)) < by_chance


@pytest.mark.parametrize("name", [n for n in plugins.names("tuners") if n != "tpe"])
def test_the_known_good_setting_comes_first(name: str) -> None:
    unit, tuner = TunerContract().unit(), plugins.load("tuners", name)()
    assert tuner.propose(unit, [], 3, random.Random(0))[0].values == unit.values
    elsewhere = [({"T0": 1, "T1": 1, "T2": 1}, 1.0)]
    assert tuner.propose(unit, elsewhere, 3, random.Random(0))[0].values == unit.values


def test_the_default_is_a_tuner() -> None:
    assert Config().tuner in plugins.names("tuners")


def test_without_optuna_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner_tpe, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"warpsmith\[search\]"):
        ParzenTuner()
