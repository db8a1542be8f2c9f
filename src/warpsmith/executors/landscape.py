"""`LandscapeExecutor` replaces the judge by recorded measurements: a result takes microseconds instead of seconds.

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
    """Returns results as a judge would, with noise that `seed` draws from the recorded spread.

    A candidate that was not recorded is refused ("not in the landscape") and counted in `missing`. `asked`: the microseconds of
    each candidate without noise, in the order of the requests; inf for a failure.
    """

    def __init__(self, landscape: Landscape, seed: int) -> None:
        self.landscape, self.missing = landscape, 0
        self.asked: list[float] = []
        self._random = random.Random(seed)

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        for candidate in candidates:
            yield self._make_result(candidate, SAMPLES)

    def confirm(self, candidate: Candidate) -> Result:
        result = self._make_result(candidate, 4 * SAMPLES)
        if result.timing is None:
            return result
        return result.model_copy(update={"timing": result.timing.model_copy(update={"confirmed": True})})

    def remeasure(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        return self.run(candidates)

    def wait_until_quiet(self, seconds: float) -> bool:
        return True

    def draw_speedup(self, points: Sequence[Point]) -> float:
        """Draw the measured speedup of disjoint units that are not in a candidate; 0 when one of them fails."""
        if any(p.status != "ok" for p in points):
            self.asked.append(math.inf)
            return 0.0
        us, _ = self._draw_us(points, SAMPLES)
        return self.landscape.baseline.median_us / us

    def _make_result(self, candidate: Candidate, samples: int) -> Result:
        recorded = [self.landscape.point(u) for u in candidate.units]
        points = [p for p in recorded if p is not None]
        failed = next((p for p in points if p.status != "ok"), None)
        if len(points) < len(recorded) or failed is not None:
            self.asked.append(math.inf)
        if len(points) < len(recorded):
            self.missing += 1
            return _make_failure(candidate, "refused", "not in the landscape")
        if failed is not None:
            return _make_failure(candidate, failed.status, failed.reason or failed.status)
        timing, profile = self._draw_timing(candidate, points, samples), self._make_profile(candidate, points)
        return Result(
            candidate_id=candidate.id, content_key=candidate.content_key, task_id=candidate.task_id,
            target=candidate.target, status="ok", verdict=Verdict(correct=True, checks=()), timing=timing,
            profile=profile, environment=self.landscape.header.environment.id,
            seconds={"build": sum(p.build for p in points), "verify": sum(p.judge for p in points)},
        )  # fmt: skip

    def _draw_us(self, points: Sequence[Point], samples: int) -> tuple[float, float]:
        """Draw a candidate's microseconds in one measurement; return them with the standard error of their logarithm."""
        true_us = self.landscape.whole_us(points)
        self.asked.append(true_us)
        error = math.hypot(PROCESS, MEDIAN * _estimate_spread(points, true_us) / math.sqrt(samples))
        return true_us * math.exp(self._random.gauss(0.0, error)), error

    def _draw_timing(self, candidate: Candidate, points: Sequence[Point], samples: int) -> Timing:
        baseline = self.landscape.baseline
        us, error = self._draw_us(points, samples)
        margin = math.exp(WIDTH * math.hypot(error, _estimate_baseline_spread(baseline)))
        speedup, ratio_margin = baseline.median_us / us, margin * (1 + FLOOR)
        ratio = Ratio(
            baseline=baseline.name, median=speedup, low=speedup / ratio_margin, high=speedup * ratio_margin
        )
        return Timing(
            median_us=us, low_us=us / margin, high_us=us * margin, cache="cold", samples=samples, ratios=(ratio,),
            unit_us={u.region.id: self._draw_unit_us(p) for u, p in zip(candidate.units, points, strict=True)},
            limit_share=self.landscape.header.limit.seconds * 1e6 / us,
        )  # fmt: skip

    def _draw_unit_us(self, point: Point) -> float:
        """Draw a unit's microseconds from five calls, as the judge times a unit."""
        error = math.hypot(PROCESS, MEDIAN * _estimate_sigma(point) / math.sqrt(5))
        return point.us * math.exp(self._random.gauss(0.0, error))

    def _make_profile(self, candidate: Candidate, points: Sequence[Point]) -> Profile:
        return Profile(
            regions=tuple(
                self._make_region_profile(u, p) for u, p in zip(candidate.units, points, strict=True)
            )
        )

    def _make_region_profile(self, unit: Unit, point: Point) -> RegionProfile:
        site, header = self.landscape.sites[self.landscape.sources[point.source].site], self.landscape.header
        return RegionProfile(
            region=unit.region.id, seconds=point.us * 1e-6, least_bytes=site.least_bytes, flops=site.flops,
            limit_share=site.limit_us / point.us, bottleneck=site.bound, family=unit.family,
            technique=unit.technique, values=unit.values, flags=unit.flags,
            threads=header.environment.threads, balance=point.balance, register_bits=header.register_bits,
            vector_bits=point.vector_bits, vector_share=point.vector_share, calls=point.called,
        )  # fmt: skip


def _estimate_sigma(point: Point) -> float:
    """Estimate the standard deviation of the logarithm of one call's time."""
    return math.log(point.high / point.low) / BETWEEN if 0 < point.low < point.high else 0.0


def _estimate_spread(points: Sequence[Point], total_us: float) -> float:
    """Estimate the same for a whole candidate; its ATen operations count as steady."""
    return math.sqrt(sum((_estimate_sigma(p) * p.us) ** 2 for p in points)) / total_us


def _estimate_baseline_spread(base: BaselineTiming) -> float:
    return math.log(base.high_us / base.low_us) / (2 * WIDTH) if 0 < base.low_us < base.high_us else 0.0


def _make_failure(candidate: Candidate, status: Status, reason: str) -> Result:
    return Result(
        candidate_id=candidate.id, content_key=candidate.content_key, task_id=candidate.task_id,
        target=candidate.target, status=status, reason=reason,
    )  # fmt: skip
