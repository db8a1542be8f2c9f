"""What techniques, values and flags do to the time of a unit, learnt from other tasks and from this one.

In: units that were timed elsewhere, then those of this run. Out: for a unit, the logarithm of its time against others for the same
region. A ridge regression on indicators: of each technique, of each value and flag, and of each of these within a family and within
a technique, so that what holds everywhere is told apart from what holds for some. What this task shows to be otherwise counts most:
its own units have indicators of their own, which take up what differs from elsewhere. Effects of which little is known stay near 0.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from ..agents.base import Attempt
from ..archive.timings import TimedUnit, once, timed
from ..records import Unit

Floats = npt.NDArray[np.float64]
Feature = tuple[object, ...]
# By how much an indicator is held back, by what it is of: the noise of a region's times over what such an effect may be, squared.
HELD: dict[str, float] = {"everywhere": 0.3, "family": 1.0, "technique": 1.0, "here": 1.0}
NOISE = 0.1  # of the logarithm of a time: measurements, and what values and flags do together
FEWEST = 2  # units of a region, below which there is nothing to compare


def units_of(attempts: Iterable[Attempt]) -> list[TimedUnit]:
    """Those of a run that were profiled."""
    results = (a.result for a in attempts if a.speedup > 0 and a.result.profile is not None)
    return once(timed((), seen) for r in results if r.profile is not None for seen in r.profile.regions)


def features(unit: TimedUnit) -> list[Feature]:
    found: list[Feature] = [("everywhere", unit.family, unit.technique)]
    for effect in (*unit.values, *((flag,) for flag in unit.flags)):
        found += [
            ("everywhere", *effect), ("family", unit.family, *effect),
            ("technique", unit.family, unit.technique, *effect),
        ]  # fmt: skip
    return found


class Experience:
    """`elsewhere`: of other tasks. A task's region counts as one observation there, however many of its units were timed."""

    def __init__(self, elsewhere: Sequence[TimedUnit]) -> None:
        self._elsewhere = _Sums()
        for group in _groups(elsewhere):
            self._elsewhere.add(list(_centred(group, equal=True)))
        self._sums, self._effects = self._elsewhere, self._elsewhere.ridge()

    def learn(self, here: Sequence[TimedUnit]) -> None:
        """This run's own units so far; those told before are forgotten."""
        sums = self._elsewhere.copy()
        for group in _groups(here):
            sums.add(list(_centred(group, equal=False, here=True)))
        self._sums, self._effects = sums, sums.ridge()

    def log_us(self, units: Sequence[Unit], draws: int = 0, rng: random.Random | None = None) -> Floats:
        """One row a unit, for one region; differences alone mean something, the less the faster. First column: what is likeliest;
        then `draws` of what may be, given all that is known.
        """
        rows = self._sums.indicators([_told(u) for u in units])
        effects = self._effects[:, None]
        if draws and rng is not None:
            effects = np.hstack([effects, self._sums.draws(self._effects, draws, rng)])
        return rows @ effects


def _told(unit: Unit) -> list[Feature]:
    values, flags = tuple(sorted(unit.values.items())), tuple(sorted(unit.flags))
    found = features(TimedUnit((), unit.family, unit.technique, values, flags, 0.0))
    return [*found, *(("here", *f) for f in found)]


Row = tuple[dict[Feature, float], float]


def _groups(units: Iterable[TimedUnit]) -> Iterable[list[TimedUnit]]:
    groups: defaultdict[tuple[str, ...], list[TimedUnit]] = defaultdict(list)
    for unit in units:
        groups[unit.group].append(unit)
    return (group for group in groups.values() if len(group) >= FEWEST)


def _centred(group: Sequence[TimedUnit], equal: bool, here: bool = False) -> Iterable[Row]:
    """Indicators and logarithms of times, less their means. `equal`: all rows together weigh one."""
    weight = 1.0 / math.sqrt(len(group)) if equal else 1.0
    named = [features(unit) for unit in group]
    if here:
        named = [[*some, *(("here", *f) for f in some)] for some in named]
    shares: defaultdict[Feature, float] = defaultdict(float)
    for some in named:
        for f in some:
            shares[f] += 1.0 / len(group)
    logs = [math.log(unit.seconds) for unit in group]
    mean = sum(logs) / len(logs)
    for some, log in zip(named, logs, strict=True):
        row = {f: -weight * share for f, share in shares.items()}
        for f in some:
            row[f] += weight
        yield {f: x for f, x in row.items() if abs(x) > 1e-12}, weight * (log - mean)


class _Sums:
    """What a ridge regression needs of its rows: sums of products, so that rows are not kept."""

    def __init__(self) -> None:
        self._place: dict[Feature, int] = {}
        self._products: Floats = np.zeros((0, 0))
        self._times: Floats = np.zeros(0)

    def copy(self) -> _Sums:
        """Added to without changing this one."""
        other = _Sums()
        other._place = dict(self._place)
        other._products, other._times = self._products.copy(), self._times.copy()
        return other

    def add(self, rows: Sequence[Row]) -> None:
        for f in sorted({f for row, _ in rows for f in row} - self._place.keys(), key=str):
            self._place[f] = len(self._place)
        more = len(self._place) - len(self._times)
        self._products, self._times = np.pad(self._products, (0, more)), np.pad(self._times, (0, more))
        used = sorted({self._place[f] for row, _ in rows for f in row})
        column = {at: i for i, at in enumerate(used)}
        matrix: Floats = np.zeros((len(rows), len(used)))
        for i, (row, _) in enumerate(rows):
            for f, x in row.items():
                matrix[i, column[self._place[f]]] = x
        self._products[np.ix_(used, used)] += matrix.T @ matrix
        self._times[used] += matrix.T @ np.array([log for _, log in rows])

    def indicators(self, told: Sequence[Sequence[Feature]]) -> Floats:
        found: Floats = np.zeros((len(told), len(self._place)))
        for row, some in zip(found, told, strict=True):
            row[[self._place[f] for f in some if f in self._place]] = 1.0
        return found

    def ridge(self) -> Floats:
        """The likeliest effects."""
        if not self._place:
            return np.zeros(0)
        found: Floats = np.linalg.solve(self._precision(), self._times).astype(np.float64)
        return found

    def draws(self, likeliest: Floats, n: int, rng: random.Random) -> Floats:
        """From the posterior of a Bayesian linear model with this ridge as its prior: one column a draw."""
        if not self._place:
            return np.zeros((0, n))
        root = np.linalg.cholesky(self._precision())
        normal = np.random.default_rng(rng.getrandbits(31)).standard_normal((len(likeliest), n))
        return likeliest[:, None] + NOISE * np.linalg.solve(root.T, normal)

    def _precision(self) -> Floats:
        return self._products + np.diag([HELD[str(f[0])] for f in self._place])
