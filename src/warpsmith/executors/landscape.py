"""A judge by landscape: results from what was recorded, in microseconds instead of seconds.

In: a `Landscape`, candidates, a seed. Out: Results with the noise that was recorded, so that a search is tried on many tasks with
many seeds in no time, without a compiler.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence

from ..records import (
    BaselineTiming,
    Candidate,
    Profile,
    Ratio,
    RegionProfile,
    Result,
    Status,
    Timing,
    Unit,
    Verdict,
)
from .landscape_data import Landscape, Point

SAMPLES = 60  # calls that the judge's search times of a candidate, about
PROCESS = 0.01  # relative difference of two processes that run the same code: one standard deviation
FLOOR = 0.03  # by which the judge widens an interval for that
WIDTH = 1.96  # standard deviations on either side of a 95% interval
BETWEEN = 2.563  # standard deviations between the tenth and the ninetieth percentile
MEDIAN = 1.2533  # standard error of a median, in that of a mean


class LandscapeExecutor:
    """Results as a judge would give them, with its noise: drawn by `seed` from the spread that was recorded.

    What was not recorded is refused ("not in the landscape") and counted in `missing`. `asked`: the true microseconds of each
    candidate, without noise, in the order of asking; inf for what failed.
    """

    def __init__(self, landscape: Landscape, seed: int) -> None:
        self.landscape, self.missing = landscape, 0
        self.asked: list[float] = []
        self._random = random.Random(seed)

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        for candidate in candidates:
            yield self._result(candidate, SAMPLES)

    def confirm(self, candidate: Candidate) -> Result:
        result = self._result(candidate, 4 * SAMPLES)
        if result.timing is None:
            return result
        return result.model_copy(update={"timing": result.timing.model_copy(update={"confirmed": True})})

    def speed(self, points: Sequence[Point]) -> float:
        """Of disjoint units that are not in a candidate: the speedup as it would be measured, 0 when one of them fails."""
        if any(p.status != "ok" for p in points):
            self.asked.append(math.inf)
            return 0.0
        us, _ = self._measured(points, SAMPLES)
        return self.landscape.baseline.median_us / us

    def _result(self, candidate: Candidate, samples: int) -> Result:
        found = [self.landscape.point(u) for u in candidate.units]
        points = [p for p in found if p is not None]
        wrong = next((p for p in points if p.status != "ok"), None)
        if len(points) < len(found) or wrong is not None:
            self.asked.append(math.inf)
        if len(points) < len(found):
            self.missing += 1
            return _failed(candidate, "refused", "not in the landscape")
        if wrong is not None:
            return _failed(candidate, wrong.status, wrong.reason or wrong.status)
        timing, profile = self._timing(candidate, points, samples), self._profile(candidate, points)
        return Result(
            candidate_id=candidate.id, content_key=candidate.content_key, task_id=candidate.task_id,
            target=candidate.target, status="ok", verdict=Verdict(correct=True, checks=()), timing=timing,
            profile=profile, environment=self.landscape.header.environment.id,
            seconds={"build": sum(p.build for p in points), "verify": sum(p.judge for p in points)},
        )  # fmt: skip

    def _measured(self, points: Sequence[Point], samples: int) -> tuple[float, float]:
        """Microseconds of a candidate as one measurement gives them, and the standard error of their logarithm."""
        true = self.landscape.whole_us(points)
        self.asked.append(true)
        error = math.hypot(PROCESS, MEDIAN * _spread(points, true) / math.sqrt(samples))
        return true * math.exp(self._random.gauss(0.0, error)), error

    def _timing(self, candidate: Candidate, points: Sequence[Point], samples: int) -> Timing:
        base = self.landscape.baseline
        us, error = self._measured(points, samples)
        half = math.exp(WIDTH * math.hypot(error, _base_spread(base)))
        speedup, wide = base.median_us / us, half * (1 + FLOOR)
        ratio = Ratio(baseline=base.name, median=speedup, low=speedup / wide, high=speedup * wide)
        return Timing(
            median_us=us, low_us=us / half, high_us=us * half, cache="cold", samples=samples, ratios=(ratio,),
            unit_us={u.region.id: self._alone(p) for u, p in zip(candidate.units, points, strict=True)},
            limit_share=self.landscape.header.limit.seconds * 1e6 / us,
        )  # fmt: skip

    def _alone(self, point: Point) -> float:
        """Of five calls, as the judge times a unit."""
        error = math.hypot(PROCESS, MEDIAN * _sigma(point) / math.sqrt(5))
        return point.us * math.exp(self._random.gauss(0.0, error))

    def _profile(self, candidate: Candidate, points: Sequence[Point]) -> Profile:
        return Profile(regions=tuple(self._seen(u, p) for u, p in zip(candidate.units, points, strict=True)))

    def _seen(self, unit: Unit, point: Point) -> RegionProfile:
        site, header = self.landscape.sites[self.landscape.sources[point.source].site], self.landscape.header
        return RegionProfile(
            region=unit.region.id, seconds=point.us * 1e-6, least_bytes=site.least_bytes, flops=site.flops,
            limit_share=site.limit_us / point.us, bottleneck=site.bound, family=unit.family,
            technique=unit.technique, values=unit.values, flags=unit.flags,
            threads=header.environment.threads, balance=point.balance, register_bits=header.register_bits,
            vector_bits=point.vector_bits, vector_share=point.vector_share, calls=point.called,
        )  # fmt: skip


def _sigma(point: Point) -> float:
    """Of the logarithm of one call's time."""
    return math.log(point.high / point.low) / BETWEEN if 0 < point.low < point.high else 0.0


def _spread(points: Sequence[Point], whole: float) -> float:
    """The same of a whole candidate; what the units leave to ATen counts as steady."""
    return math.sqrt(sum((_sigma(p) * p.us) ** 2 for p in points)) / whole


def _base_spread(base: BaselineTiming) -> float:
    return math.log(base.high_us / base.low_us) / (2 * WIDTH) if 0 < base.low_us < base.high_us else 0.0


def _failed(candidate: Candidate, status: Status, reason: str) -> Result:
    return Result(
        candidate_id=candidate.id, content_key=candidate.content_key, task_id=candidate.task_id,
        target=candidate.target, status=status, reason=reason,
    )  # fmt: skip
