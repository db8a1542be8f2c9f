from warpsmith.search.tuner import HillClimb, RandomSearch, Tuner
from warpsmith.testing import TunerContract


class TestHillClimb(TunerContract):
    def make(self) -> Tuner:
        return HillClimb()

    def test_climbs_from_the_best_tried(self) -> None:
        import random

        unit = self.unit()
        tried = [({"T0": 8, "T1": 8, "T2": 8}, 9.0), (unit.values, 1.0)]
        steps = [u.values for u in HillClimb().propose(unit, tried, 3, random.Random(0))]
        assert sorted(sorted(v.values()) for v in steps) == [[4, 8, 8]] * 3


class TestRandomSearch(TunerContract):
    def make(self) -> Tuner:
        return RandomSearch()
