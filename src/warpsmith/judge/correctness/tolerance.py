"""The tolerance of an output: one error budget per element, one per tensor, from evidence rather than
from a constant.

In: for each output the native-dtype reference, the fp64 oracle on the same inputs, and the *noise*: the root
mean square by which an honest implementation in the native dtype would miss the oracle, element by element,
found by Monte Carlo arithmetic (`rounding.py`). Out: whether an output is within budget, the worst error as a
share of it, and what it looks like.

An element may miss the oracle by a few ulp of its own value plus `REACH` times its noise, pooled over
elements of like magnitude (a single noise draw may be small by luck), plus as much of the reference's own
error. The whole tensor's root mean square error may be a small multiple of the same. The normwise rule has
the power to tell bf16, fp16 or TF32 arithmetic from fp32: their errors are hundreds of times the noise,
whereas honest orders of a sum differ by less than the noise of a sequential one. Source of the rule for half
precision (`HALF_MULTIPLE`): relative Frobenius error of HGEMM on N(0,1), fp32 accumulation 2.1e-4 at every K,
fp16 accumulation 3.3e-4 and more; 1.2 times the honest error separates them.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ...processes.buffers import NUMPY_DTYPE
from ..layout import FLOATS
from .error_budget import FLOOR, HALVES, UNIT_ROUNDOFF, ErrorBudget, Piece, compute_error_budget
from .forensics import likely_cause

Array = npt.NDArray[Any]
APPEAL = 16.0  # times the budget: what exceeds it by no more is doubtful
TELLING = 0.5  # share of the budget from which on the error is told in units of the last place, too
CHUNK = 1 << 20  # elements compared at a time: bounds the temporaries
PIECE = 1 << 16  # and those of which a budget is made: so many stay in the cache


@dataclass(frozen=True)
class Truth:
    """One output as it should be. `noise` is fp64 of the output's shape; for integers and bools, the other
    values that rounding
    may honestly produce (near ties), stacked along a new first axis."""

    dtype: str
    native: Array  # bfloat16 as uint16 bits
    oracle: Array  # float64, or the integers
    noise: Array
    draws: int = 1  # noise draws behind each element
    exact: bool = False  # no rounding can occur: every bit must agree
    all_finite: bool | None = None  # whether all is finite, where somebody has looked

    @property
    def floating(self) -> bool:
        return self.dtype in FLOATS

    @cached_property
    def finite(self) -> bool:
        if self.all_finite is not None:
            return self.all_finite
        return not self.floating or bool(
            np.isfinite(to_float64(self.native, self.dtype)).all() and np.isfinite(self.oracle).all()
        )


@dataclass(frozen=True)
class Comparison:
    ok: bool
    rule: str = ""  # "non-finite", "budget", "rms-budget", "exact"
    detail: str = ""
    error: float = 0.0  # worst error as a share of the budget
    ulp: float = 0.0  # worst error in units of the last place of its own element
    doubtful: bool = False  # wrong, but by so little that a better estimate of the noise may say otherwise


def to_float64(array: Array, dtype: str) -> Array:
    if dtype == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def from_float64(array: Array, dtype: str) -> Array:
    """Round to nearest even; bfloat16 comes back as bits."""
    if dtype != "bfloat16":
        with np.errstate(over="ignore"):
            return array.astype(NUMPY_DTYPE[dtype])
    with np.errstate(over="ignore"):
        bits = array.astype(np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(array), np.uint16(0x7FC0), rounded)


class Tolerance:
    """Compares outputs with one truth, by its error budget. Built once, used for every candidate."""

    def __init__(self, truth: Truth, budget: ErrorBudget | None = None) -> None:
        """`budget`: with it, `truth.noise` holds what each element may miss by; without it, that is found here."""
        self.truth = truth
        self.steady = True  # whether the reference keeps its own budget
        if truth.floating and not truth.exact:
            if budget is None:
                pieces: list[Array] = []
                with np.errstate(invalid="ignore", over="ignore"):
                    budget = compute_error_budget(np, truth.dtype, truth.draws, self._pieces, pieces.append)
                self.element = np.concatenate(pieces or [np.empty(0)]).reshape(truth.oracle.shape)
            else:
                self.element = truth.noise
            self.steady, self.rms = budget.steady, budget.rms

    def _pieces(self) -> Iterator[Piece]:
        truth = self.truth
        native, oracle, noise = (a.reshape(-1) for a in (truth.native, truth.oracle, truth.noise))
        for start in range(0, oracle.size, PIECE):
            part = slice(start, start + PIECE)
            value = oracle[part]
            ideal = (
                to_float64(from_float64(value, truth.dtype), truth.dtype) if truth.dtype in HALVES else None
            )
            yield Piece(to_float64(native[part], truth.dtype), value, noise[part], ideal)

    def compare(self, actual: Array, inputs: tuple[Array, ...] = (), most: int | None = None) -> Comparison:
        """`actual` has the truth's shape and storage type. `inputs` serve the forensics only. `most`: look at
        about so many elements, in places that nobody can foresee; None: at all.
        """
        if not self.truth.floating:
            return self._compare_integers(actual)
        if self.truth.exact:
            return self._compare_exactly(actual, inputs)
        shares, square = [0.0], 0.0
        for error, allowed in self._errors(actual, most):
            if not np.isfinite(error).all():
                return self._fail("non-finite", actual, inputs, np.inf)
            shares.append(float((error / allowed).max(initial=0.0)))
            square += float(np.square(error).sum())
        worst, rms_share = max(shares), self._whole(square, actual)
        if worst > 1:
            return self._fail("budget", actual, inputs, worst)
        if rms_share > 1:
            return self._fail("rms-budget", actual, inputs, rms_share)
        return Comparison(
            True, error=max(worst, rms_share), ulp=self._ulp(actual) if worst > TELLING else 0.0
        )

    def find_broken_rule(self, actual: Array) -> str:
        """Return the rule that `actual` breaks, as `compare` finds it, "" for none; what is wrong stays unsaid, and the first part that is
        wrong suffices.
        """
        if not self.truth.floating or self.truth.exact:
            return self.compare(actual).rule
        square = 0.0
        for error, allowed in self._errors(actual, None):
            if not np.isfinite(error).all():
                return "non-finite"
            if (error > allowed).any():
                return "budget"
            square += float(np.square(error).sum())
        return "rms-budget" if self._whole(square, actual) > 1 else ""

    def _whole(self, square: float, actual: Array) -> float:
        """Share of the budget for all together that the sum of squared errors takes."""
        return float(np.sqrt(square / max(actual.size, 1))) / self.rms

    def _errors(self, actual: Array, most: int | None) -> Iterator[tuple[Array, Array]]:
        """Yield chunk by chunk the elements' distances from the oracle, and what they may be."""
        truth = self.truth
        arrays = (actual, truth.oracle, truth.native, self.element)
        flat, oracle, native, element = (a.reshape(-1) for a in arrays)
        for start in _places(actual.size, most):
            part = slice(start, start + CHUNK)
            yield self._error(flat[part], oracle[part], native[part]), element[part]

    def _error(self, actual: Array, oracle: Array, native: Array) -> Array:
        """Distance from the oracle; where the reference itself is not finite, 0 for the same non-finite value
        and inf for another.
        """
        value = to_float64(actual, self.truth.dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(value - oracle)
        if np.isfinite(error).all() and (self.truth.finite or np.isfinite(oracle).all()):
            return error
        reference = to_float64(native, self.truth.dtype)
        special = ~np.isfinite(reference)
        same = (value == reference) | (np.isnan(value) & np.isnan(reference))
        return np.where(special, np.where(same, 0.0, np.inf), np.where(np.isfinite(value), error, np.inf))

    def _compare_exactly(self, actual: Array, inputs: tuple[Array, ...]) -> Comparison:
        value, reference = (
            to_float64(actual, self.truth.dtype),
            to_float64(self.truth.native, self.truth.dtype),
        )
        same = (value == reference) | (np.isnan(value) & np.isnan(reference))
        if same.all():
            return Comparison(True)
        return self._fail(
            "non-finite" if (~np.isfinite(value) & ~same).any() else "exact", actual, inputs, np.inf
        )

    def _compare_integers(self, actual: Array) -> Comparison:
        truth = self.truth
        wrong = actual != truth.native
        if not wrong.any():
            return Comparison(True)
        honest = (truth.noise == actual).any(axis=0) if truth.noise.size else np.zeros(actual.shape, bool)
        honest |= actual == truth.oracle
        wrong &= ~honest
        if not wrong.any():
            return Comparison(True)
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        detail = (
            f"{int(wrong.sum())} of {wrong.size} values differ, first at {list(at)}: "
            f"{actual[at]} instead of {truth.native[at]}, and it is no tie"
        )
        return Comparison(False, "exact", detail, float("inf"))

    def _fail(self, rule: str, actual: Array, inputs: tuple[Array, ...], share: float) -> Comparison:
        truth = self.truth
        value = to_float64(actual, truth.dtype)
        error = self._error(actual, truth.oracle, truth.native)
        allowed = np.zeros(error.shape) if truth.exact else self.element
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = np.where(error == 0, 0.0, error / allowed)
        at = np.unravel_index(int(np.argmax(shares)), shares.shape) if shares.size else ()
        bad = shares > 1
        position = [int(i) for i in at]
        where = (
            f"{int(bad.sum())} of {bad.size} elements, worst at {position}"
            if bad.any()
            else f"worst at {position}"
        )
        cause = likely_cause(value, truth.oracle, bad, inputs)
        over = f"{share:.3g} times the budget" if np.isfinite(share) else "beyond any budget"
        detail = f"{where}: {value[at]:.9g} instead of {truth.oracle[at]:.9g} ({over})"
        text = f"{detail}; {cause}" if cause else detail
        doubtful = rule == "budget" and bool(((shares <= APPEAL) | (error <= self.rms))[bad].all())
        return Comparison(False, rule, text, share, self._ulp(actual), doubtful)

    def _ulp(self, actual: Array) -> float:
        """Largest error in ulps of the oracle's element."""
        truth, worst = self.truth, 0.0
        flat, oracle, native = (a.reshape(-1) for a in (actual, truth.oracle, truth.native))
        for start in range(0, flat.size, CHUNK):
            part = slice(start, start + CHUNK)
            error = self._error(flat[part], oracle[part], native[part])
            size = np.maximum(2 * UNIT_ROUNDOFF[truth.dtype] * np.abs(oracle[part]), FLOOR[truth.dtype])
            with np.errstate(invalid="ignore", divide="ignore"):
                worst = max(worst, float(np.nanmax(error / size, initial=0.0)))
        return min(worst, 1e300)


def _places(count: int, most: int | None) -> Sequence[int]:
    """Choose where the chunks to look at begin; the last one, where tails go wrong, is among them."""
    starts = range(0, count, CHUNK)
    chunks = len(starts) if most is None else max(1, most // CHUNK)
    if chunks >= len(starts):
        return starts
    return [*secrets.SystemRandom().sample(starts[:-1], chunks - 1), starts[-1]]
