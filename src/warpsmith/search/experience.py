"""A model of what techniques, values and flags do to the time of a unit, learnt from other tasks and from this one.

In: units that were timed elsewhere, then those of this run. Out: for units that could be written for a region, the logarithm of the
time that is likeliest. A Bayesian linear model: a unit has an indicator for its technique, for each value and flag, and for each pair of
these within its technique; each does something everywhere, and something more in one region of one task alone. How long a
region takes at all is a guess before it was measured. What was seen counts as much as the few variances below say.

What held elsewhere may not hold here. So a second model knows this run alone; each of the two counts as much as is likely by the times that
this run measured (Bayesian model averaging).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from ..agents.base import Attempt
from ..archive.timings import TimedUnit, make_timed_unit, once
from ..records import Unit

Floats = npt.NDArray[np.float64]
Columns = npt.NDArray[np.int64]
Feature = tuple[object, ...]
Key = tuple[str, str, tuple[tuple[str, int], ...], tuple[str, ...]]
# Variances of the logarithm of a time, by what an indicator is of: of what it does everywhere, and of what it does in one region more.
EVERYWHERE: Mapping[str, float] = MappingProxyType({"technique": 0.0025, "effect": 0.002, "pair": 0.001})
HERE: Mapping[str, float] = MappingProxyType({"technique": 0.0, "effect": 0.003, "pair": 0.002})
LEVEL_VARIANCE = 0.16  # of a region's time before anything of it was measured
ANY_LEVEL_VARIANCE = 4.0  # the same for other tasks, whose levels nobody guesses
NOISE_VARIANCE = 0.0043  # of one unit alone, and of its measurement
FEWEST = 2  # units of a region elsewhere, below which there is nothing to compare
MOST = 1_500  # units from elsewhere that are learnt from: the time to do so grows with the cube


def list_timed_units(attempts: Iterable[Attempt]) -> list[TimedUnit]:
    """List the units of a run that were profiled."""
    results = (a.result for a in attempts if a.speedup > 0 and a.result.profile is not None)
    return once(
        make_timed_unit((), region) for r in results if r.profile is not None for region in r.profile.regions
    )


def make_key(unit: Unit | TimedUnit) -> Key:
    """Return what identifies a unit in its region."""
    values = tuple(sorted(unit.current_values.items())) if isinstance(unit, Unit) else unit.values
    return unit.family, unit.technique, values, tuple(sorted(unit.flags))


def list_features(key: Key) -> list[Feature]:
    family, technique, values, flags = key
    effects: list[Feature] = [*values, *((flag,) for flag in flags)]
    pairs = (("pair", family, technique, *first, *second) for first, second in combinations(effects, 2))
    return [("technique", family, technique), *(("effect", *e) for e in effects), *pairs]


@dataclass
class Part:
    """One model's knowledge of the units of a pool."""

    columns: Columns
    before: Floats  # variance of each before anything of this run was seen
    seen: list[Floats] = field(default_factory=list)  # covariances with this run's units, in their order


@dataclass(frozen=True)
class Pool:
    """Units that could be written for a region. `level`: the logarithm of the microseconds that one of them may take."""

    region: str
    units: Sequence[Unit]
    level: float
    keys: list[Key]
    parts: list[Part]  # one for each model


@dataclass(frozen=True)
class _Seen:
    """A unit of this run. `weights`: what its time says of each indicator everywhere; `here`: in its own region."""

    region: str
    columns: Columns
    weights: Floats
    here: Floats
    off: float  # logarithm of its time over the one that was likeliest before

    def covariance(self, region: str, columns: Columns) -> Floats:
        total: Floats = _pad_weights(self.weights, columns)[columns].sum(axis=-1)
        if region == self.region:
            total = total + _pad_weights(self.here, columns)[columns].sum(axis=-1) + LEVEL_VARIANCE
        return total


@dataclass(frozen=True)
class Elsewhere:
    """The knowledge from other tasks. `place`: of each indicator its column, with its `variances`; column 0 stands for none.

    `rows`: the columns of each unit. `inverse`: of the covariance of what was seen. `weights`: what that says of each indicator.
    """

    place: Mapping[Feature, int]
    variances: Sequence[tuple[float, float]]
    rows: Columns
    inverse: Floats
    weights: Floats


class Experience:
    """`elsewhere`: of other tasks; none is fine. Until something of this run was timed, what they taught is all that counts."""

    def __init__(self, elsewhere: Sequence[TimedUnit] = ()) -> None:
        taught = Model(elsewhere)
        self._models = [taught, Model()] if taught.elsewhere else [taught]
        self._weights = [1.0, 0.0][: len(self._models)]

    @property
    def elsewhere(self) -> bool:
        """True if anything is known of other tasks."""
        return self._models[0].elsewhere

    def pool(self, region: str, units: Sequence[Unit], level: float) -> Pool:
        keys = [make_key(u) for u in units]
        return Pool(region, units, level, keys, [model.part(keys) for model in self._models])

    def learn(self, here: Iterable[TimedUnit], levels: Mapping[str, float]) -> None:
        """This run's own units so far, in the regions that have a level. Those that were told before stay."""
        here = list(here)
        for model in self._models:
            model.learn(here, levels)
        if self._models[0].learnt:
            self._weights = _shares([model.evidence for model in self._models])

    def log_us(self, pool: Pool) -> tuple[Floats, Floats]:
        """Return the estimate for each unit of the pool and its standard deviation, both as means over the models."""
        estimates = [model.log_us(pool, part) for model, part in zip(self._models, pool.parts, strict=True)]
        likeliest, spread = (
            np.average(values, axis=0, weights=self._weights) for values in zip(*estimates, strict=True)
        )
        return likeliest, spread


class Model:
    """One linear model. `elsewhere`: what it knows of other tasks."""

    def __init__(self, elsewhere: Sequence[TimedUnit] = ()) -> None:
        taught = _taught(tuple(elsewhere))
        self._rows, self._inverse, self._weights = taught.rows, taught.inverse, taught.weights
        self._place, self._variances = dict(taught.place), list(taught.variances)
        self._seen: dict[tuple[str, Key], _Seen] = {}
        self._between, self._here, self._gains = np.zeros((0, 0)), np.zeros((0, 0)), np.zeros(0)
        self.evidence = 0.0  # logarithm of how likely this run's times are, less what all models have alike

    @property
    def elsewhere(self) -> bool:
        return len(self._rows) > 0

    @property
    def learnt(self) -> bool:
        """True if anything of this run was timed."""
        return len(self._seen) > 0

    def part(self, keys: Sequence[Key]) -> Part:
        columns = self._columns(keys)
        before = LEVEL_VARIANCE + np.array(self._variances).sum(axis=1)[columns].sum(axis=1)
        return Part(columns, before)

    def learn(self, here: Iterable[TimedUnit], levels: Mapping[str, float]) -> None:
        for unit in here:
            region, key = unit.group[-1], make_key(unit)
            if region in levels and (region, key) not in self._seen:
                columns = self._columns([key])[0]
                likeliest = levels[region] + float(self._likeliest(columns))
                off = math.log(unit.seconds * 1e6) - likeliest
                self._seen[region, key] = _Seen(region, columns, *self._spread(columns), off)
        units, count = list(self._seen.values()), len(self._gains)
        if len(units) == count:
            return
        self._between = np.pad(self._between, (0, len(units) - count))
        for i, unit_here in enumerate(units[count:], count):
            for j, earlier in enumerate(units[: i + 1]):
                shared = float(earlier.covariance(unit_here.region, unit_here.columns))
                self._between[i, j] = self._between[j, i] = shared
        covariance = self._between + NOISE_VARIANCE * np.eye(len(units))
        self._here = _inverse(covariance)
        times = np.array([unit_here.off for unit_here in units])
        self._gains = self._here @ times
        self.evidence = -float(times @ self._gains + np.linalg.slogdet(covariance)[1]) / 2

    def log_us(self, pool: Pool, part: Part) -> tuple[Floats, Floats]:
        """Return the estimate for each unit of the pool and its standard deviation."""
        for unit in list(self._seen.values())[len(part.seen) :]:
            part.seen.append(unit.covariance(pool.region, part.columns))
        estimate = pool.level + self._likeliest(part.columns)
        if not part.seen:
            return estimate, np.sqrt(part.before)
        covariances = np.array(part.seen)
        explained = (covariances * (self._here @ covariances)).sum(axis=0)
        return estimate + self._gains @ covariances, np.sqrt(np.maximum(part.before - explained, 0.0))

    def _likeliest(self, columns: Columns) -> Floats:
        estimate: Floats = _pad_weights(self._weights, columns)[columns].sum(axis=-1)
        return estimate

    def _columns(self, keys: Sequence[Key]) -> Columns:
        return _columns(keys, self._place, self._variances)

    def _spread(self, columns: Columns) -> tuple[Floats, Floats]:
        """Return what the time of a unit says of each indicator: everywhere, given what is known of elsewhere, and in its region."""
        everywhere, local = np.array(self._variances).T
        alone = _mark_variances(columns, everywhere)
        explained = _add_up(self._rows, self._inverse @ alone[self._rows].sum(axis=-1), everywhere)
        return alone - explained, _mark_variances(columns, local)


def _shares(evidence: Sequence[float]) -> list[float]:
    """Return how likely each of several models is, all of which were equally likely before."""
    odds = [math.exp(value - max(evidence)) for value in evidence]
    return [value / sum(odds) for value in odds]


@lru_cache(maxsize=2)  # the model of this run alone has nothing from elsewhere
def _taught(elsewhere: tuple[TimedUnit, ...]) -> Elsewhere:
    """Kept for further searches that know the same."""
    groups, column, variances = _groups(elsewhere), dict[Feature, int](), [(0.0, 0.0)]
    rows = _columns([make_key(u) for group in groups for u in group], column, variances)
    logs = [[math.log(u.seconds) for u in group] for group in groups]
    off = np.array([log - sum(times) / len(times) for times in logs for log in times])
    number = np.array([i for i, group in enumerate(groups) for _ in group])
    everywhere, local = np.array(variances).T
    covariance = NOISE_VARIANCE * np.eye(len(off))
    for i, row in enumerate(rows):
        same = number == number[i]
        covariance[i] += _mark_variances(row, everywhere)[rows].sum(axis=-1)
        covariance[i, same] += ANY_LEVEL_VARIANCE + _mark_variances(row, local)[rows[same]].sum(axis=-1)
    inverse = _inverse(covariance)
    return Elsewhere(column, variances, rows, inverse, _add_up(rows, inverse @ off, everywhere))


def _columns(keys: Sequence[Key], place: dict[Feature, int], variances: list[tuple[float, float]]) -> Columns:
    """Return for each unit the columns of its indicators, filled up with 0. New indicators get a column."""
    rows: list[list[int]] = []
    for key in keys:
        for feature in (row_features := list_features(key)):
            if feature not in place:
                place[feature] = len(variances)
                variances.append((EVERYWHERE[str(feature[0])], HERE[str(feature[0])]))
        rows.append([place[feature] for feature in row_features])
    columns = np.zeros((len(keys), max(map(len, rows), default=0)), dtype=np.int64)
    for row, row_columns in zip(columns, rows, strict=True):
        row[: len(row_columns)] = row_columns
    return columns


def _add_up(rows: Columns, by: Floats, variances: Floats) -> Floats:
    """Add up what units say of each indicator, each weighted by `by`."""
    sums = np.zeros(len(variances))
    np.add.at(sums, rows, by[:, None])
    return sums * variances


def _groups(elsewhere: Sequence[TimedUnit]) -> list[list[TimedUnit]]:
    """By region of a task on a machine; thinned out evenly where there are too many."""
    groups: dict[tuple[str, ...], list[TimedUnit]] = {}
    for unit in elsewhere[:: max(1, math.ceil(len(elsewhere) / MOST))]:
        groups.setdefault(unit.group, []).append(unit)
    return [group for group in groups.values() if len(group) >= FEWEST]


def _inverse(matrix: Floats) -> Floats:
    return np.linalg.inv(matrix).astype(np.float64)


def _mark_variances(columns: Columns, variances: Floats) -> Floats:
    marks = np.zeros(len(variances))
    marks[columns] = variances[columns]
    return marks


def _pad_weights(weights: Floats, columns: Columns) -> Floats:
    """Indicators that came later have no weight."""
    short = int(columns.max(initial=0)) + 1 - len(weights)
    return np.pad(weights, (0, short)) if short > 0 else weights
