"""Error budgets: by how much each element of an output, and the whole tensor, may miss the oracle. `tolerance.Tolerance` applies them.

In: an output's native reference, oracle and noise in float64, in pieces, as arrays of numpy or of torch, on any device.
Out: an `ErrorBudget`. The reference worker asks for it where the arrays lie, with torch: an output of a billion elements is
no work for a GPU and minutes for one processor. A `Tolerance` whose truth comes alone asks with numpy. Pieces bound the
temporaries. The rule is told in `tolerance`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

HALVES = ("float16", "bfloat16")
UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
# Below these a result may be flushed to zero: the smallest normal number (for fp16 the smallest subnormal one), of float32 four times
# that, since processors' approximate reciprocals of the largest numbers are zero.
FLOOR = {"float64": 2.0**-1022, "float32": 2.0**-124, "float16": 2.0**-24, "bfloat16": 2.0**-124}
OWN_ULP = {"float64": 2.0, "float32": 2.0, "float16": 1.0, "bfloat16": 1.0}  # granted to every element
REACH = 8.0  # noise is a standard deviation; the largest of 1e8 normal draws lies at 5.7
RMS_MULTIPLE = 2.5
HALF_MULTIPLE = 1.2
POOL = 32  # noise draws that a pooled estimate rests on
EXPONENTS, MIDDLE = 2200, 1100  # of float64, and where that of 0.5 lies among them; place 0 is for zeros

Array = Any  # of numpy or of torch
Counts = npt.NDArray[Any]


@dataclass(frozen=True)
class Piece:
    """Flat parts of one output, float64. `ideal`: the oracle in the output's own half precision, where it has one."""

    native: Array
    oracle: Array
    noise: Array
    ideal: Array | None = None


@dataclass(frozen=True)
class ErrorBudget:
    rms: float  # what the root mean square of the errors may be
    steady: bool  # whether the reference keeps the budget itself


Pieces = Callable[[], Iterator[Piece]]  # the same ones at each call
Keep = Callable[[Array], None]  # takes what the elements of the next piece may miss by


def compute_error_budget(xp: Any, dtype: str, draws: int, pieces: Pieces, keep: Keep) -> ErrorBudget:
    """Compute an output's budget. `xp`: the module numpy or torch; `draws`: of noise, behind each element."""

    def parts() -> Iterator[tuple[Array, Array]]:
        for piece in pieces():
            missed, noise, magnitude = _sizes(xp, piece)
            yield magnitude, missed * missed + noise * noise

    typical = pool_by_magnitude(xp, draws, parts)
    unit, floor, steady, sums = UNIT_ROUNDOFF[dtype], FLOOR[dtype], True, _Sums()
    for piece in pieces():
        missed, noise, magnitude = _sizes(xp, piece)
        typical_square = typical(magnitude)
        spread = xp.sqrt(xp.where(typical_square > noise * noise, typical_square, noise * noise))
        nearest = 2 * OWN_ULP[dtype] * unit * magnitude + floor
        allowed = nearest + REACH * spread
        # Where the reference itself misses by more, the inputs are ill-conditioned: rounding to a half flips
        # a tie of logits, say. Whoever shares its error may still round otherwise.
        over = missed > allowed
        steady = steady and not bool(over.any())
        keep(xp.where(over, missed + nearest + REACH * noise, allowed))
        sums.add(xp, spread, missed, magnitude, piece)
    return ErrorBudget(sums.budget(dtype), steady)


def _sizes(xp: Any, piece: Piece) -> tuple[Array, Array, Array]:
    """Return magnitudes of the reference's error, the noise and the value, 0 where they are not finite."""
    missed = xp.abs(piece.native - piece.oracle)
    return tuple(_finite(xp, a) for a in (missed, piece.noise, xp.abs(piece.oracle)))  # type: ignore[return-value]


def _finite(xp: Any, array: Array) -> Array:
    return xp.nan_to_num(array, nan=0.0, posinf=0.0, neginf=0.0)


class _Sums:
    """Adds up squares over all pieces."""

    def __init__(self) -> None:
        self.count, self.spread, self.missed, self.rounding = 0, 0.0, 0.0, 0.0
        self.scale, self.own, self.fourth = 0.0, 0.0, 0.0  # own: of values as shares of the largest so far

    def add(self, xp: Any, spread: Array, missed: Array, magnitude: Array, piece: Piece) -> None:
        if not len(magnitude):
            return
        self.count += len(magnitude)
        self.spread += float((spread * spread).sum())
        self.missed += float((missed * missed).sum())
        scale = max(self.scale, float(magnitude.max()))
        if scale > self.scale:
            shrunk = (self.scale / scale) ** 2
            self.own, self.fourth, self.scale = self.own * shrunk, self.fourth * shrunk * shrunk, scale
        if scale > 0:
            squares = (magnitude / scale) ** 2
            self.own += float(squares.sum())
            self.fourth += float((squares * squares).sum())
        if piece.ideal is not None:
            off = _finite(xp, piece.ideal - piece.oracle)
            self.rounding += float((off * off).sum())

    def budget(self, dtype: str) -> float:
        if not self.count:
            return float("inf")
        # How many elements a root mean square averages over: one, if one is far larger than the rest.
        effective = self.own**2 / self.fourth if self.scale > 0 else float(self.count)
        luck = 1 + 3 / effective**0.5  # a few elements say little about a root mean square

        def rms(total: float) -> float:
            return float((total / self.count) ** 0.5)

        if dtype in HALVES:
            return float(HALF_MULTIPLE * luck * max(rms(self.rounding), rms(self.missed)) + FLOOR[dtype])
        rms_value = self.scale * rms(self.own)
        return float(
            luck * (RMS_MULTIPLE * rms(self.spread) + 2 * UNIT_ROUNDOFF[dtype] * rms_value) + FLOOR[dtype]
        )


def pool_by_magnitude(
    xp: Any, draws: int, parts: Callable[[], Iterator[tuple[Array, Array]]]
) -> Callable[[Array], Array]:
    """Average squares over elements whose magnitude has a like exponent; windows widen until `POOL` draws lie inside.
    `parts`: magnitudes and squares. Returns a function of magnitudes.
    """
    counts, sums = np.zeros(EXPONENTS), np.zeros(EXPONENTS)
    for magnitude, squares in parts():
        bins = _place(xp, magnitude)
        counts += _numpy(xp.bincount(bins, minlength=EXPONENTS))
        sums += _numpy(xp.bincount(bins, weights=squares, minlength=EXPONENTS))
    means = _window_means(counts, sums, draws)
    table: list[Array] = []

    def lookup(magnitude: Array) -> Array:
        if not table:
            table.append(means if xp is np else xp.as_tensor(means, device=magnitude.device))
        return table[0][_place(xp, magnitude)]

    return lookup


def _place(xp: Any, own: Array) -> Array:
    _, exponent = xp.frexp(own)
    return xp.where(own == 0, 0, exponent + MIDDLE)  # zeros, which nothing made, do not lie with 0.5


def _numpy(array: Array) -> Counts:
    return array if isinstance(array, np.ndarray) else array.cpu().numpy()


def _window_means(counts: Counts, sums: Counts, draws: int) -> Counts:
    """For each place that an element lies in. The place of zeros counts as the neighbour of the smallest ones."""
    means, used = np.zeros(EXPONENTS), np.flatnonzero(counts[1:]) + 1
    bins = np.arange(used[0], used[-1] + 1) if len(used) else np.array([], dtype=int)
    if counts[0]:
        bins = np.concatenate([[0], bins])
    if not len(bins):
        return means
    bin_counts, total = counts[bins], sums[bins]
    counts_to, sums_to = (np.concatenate([[0.0], np.cumsum(a)]) for a in (bin_counts, total))
    need = min(-(-POOL // draws), counts.sum())
    for bin_ in np.flatnonzero(bin_counts):
        means[bins[bin_]] = _window_mean(int(bin_), total, counts_to, need, sums_to)
    return means


def _window_mean(centre: int, sums: Counts, counts_to: Counts, need: float, sums_to: Counts) -> float:
    first, last = centre, centre + 1
    while counts_to[last] - counts_to[first] < need:
        first, last = max(first - 1, 0), min(last + 1, len(sums))
    # Cumulative sums lose small bins next to huge ones, so add the window's bins themselves.
    total = float(sums[first:last].sum()) if last - first < 64 else float(sums_to[last] - sums_to[first])
    return total / float(counts_to[last] - counts_to[first])
