"""Forensics of a wrong output: from the values, the oracle and the mask of bad elements to one line of
likely cause.

Used in messages to people and to agents that repair a candidate; never to decide whether an output is right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def likely_cause(actual: Array, oracle: Array, bad: Array, inputs: tuple[Array, ...] = ()) -> str:
    """All arrays float64 of one shape, `bad` boolean; `inputs` are the float inputs, of any shape. Empty:
    nothing recognised.
    """
    if actual.size == 0:
        return ""
    location = _locate(actual, oracle, bad)
    for guess in (
        _guess_nonfinite,
        _guess_constant,
        _guess_copy(inputs),
        _guess_permutation,
        _guess_linear,
        _guess_rounding,
    ):
        text = guess(actual, oracle, bad)
        if text:
            return f"{text}; {location}" if location and not bad.all() else text
    return location


def _guess_nonfinite(actual: Array, oracle: Array, bad: Array) -> str:
    wrong = ~np.isfinite(actual) & np.isfinite(oracle)
    if not wrong.any():
        return ""
    kinds = [name for name, test in (("NaN", np.isnan), ("inf", np.isinf)) if test(actual[wrong]).any()]
    return f"{int(wrong.sum())} {' and '.join(kinds)} where the reference is finite"


def _guess_constant(actual: Array, oracle: Array, bad: Array) -> str:
    if actual.size > 1 and (actual == actual.flat[0]).all() and not (oracle == oracle.flat[0]).all():
        return "all zeros" if actual.flat[0] == 0 else "one constant everywhere"
    if bad.any() and (actual[bad] == 0).all() and (oracle[bad] != 0).any():
        return "zeros where values belong"
    return ""


def _guess_copy(inputs: tuple[Array, ...]) -> Callable[[Array, Array, Array], str]:
    def guess(actual: Array, oracle: Array, bad: Array) -> str:
        for number, tensor in enumerate(inputs):
            if tensor.size == actual.size and np.array_equal(tensor.reshape(-1), actual.reshape(-1)):
                return f"it is input {number}, unchanged"
        return ""

    return guess


def _guess_permutation(actual: Array, oracle: Array, bad: Array) -> str:
    if actual.size < 4 or actual.size > 1 << 20 or bad.mean() < 0.1:
        return ""
    values, truth = np.sort(actual, axis=None), np.sort(oracle, axis=None)
    scale = max(float(np.abs(truth).max()), 1e-300)
    spread = float(truth[-1] - truth[0])
    differs = float(np.abs(actual - oracle).max()) > 1e-3 * scale
    if differs and spread > 1e-3 * scale and np.abs(values - truth).max() <= 1e-5 * scale:
        return "right values in wrong places (a transposed or permuted index)"
    return ""


def _guess_linear(actual: Array, oracle: Array, bad: Array) -> str:
    """A constant factor or offset on all bad elements."""
    values, truth = actual[bad], oracle[bad]
    if values.size < 4 or np.ptp(truth) == 0:
        return ""
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = values[truth != 0] / truth[truth != 0]
    offset = values - truth
    if (
        factor.size >= 4
        and abs(np.median(factor) - 1) > 1e-2
        and np.ptp(factor) < 1e-3 * abs(np.median(factor))
    ):
        return f"off by a factor of {np.median(factor):.6g}"
    if abs(np.median(offset)) > 1e-2 * np.std(truth) and np.ptp(offset) < 1e-3 * abs(np.median(offset)):
        return f"off by a constant {np.median(offset):.6g}"
    return ""


def _guess_rounding(actual: Array, oracle: Array, bad: Array) -> str:
    if bad.mean() < 0.02:
        return ""
    scale = np.sqrt(np.mean(np.square(oracle)))
    if not np.isfinite(scale) or scale == 0:
        return ""
    bits = -np.log2(max(np.sqrt(np.mean(np.square(actual - oracle))) / scale, 1e-300))
    mantissa = np.ascontiguousarray(actual.astype(np.float32)).view(np.uint32)
    for name, zeros, low, high in (("bf16", 16, 5.5, 11.5), ("TF32 or fp16", 13, 9.5, 14.5)):
        if not (mantissa & ((1 << zeros) - 1)).any() and (actual != 0).any() and bits < high + 2:
            return f"values carry {name} precision only"
        if low <= bits <= high and bad.mean() > 0.1:
            return f"agrees to about {bits:.0f} bits: looks like {name} rounding"
    if bits > 14 and bad.mean() > 0.02:
        return f"agrees to about {bits:.0f} bits: an inaccurate approximation or summation"
    return ""


def _locate(actual: Array, oracle: Array, bad: Array) -> str:
    """Say where the bad elements lie, over the last axis and over the rest."""
    if not bad.any() or bad.all() or bad.ndim == 0:
        return "every element" if bad.ndim and bad.all() and bad.size > 1 else ""
    table = bad.reshape(-1, bad.shape[-1])
    rows, columns = np.flatnonzero(table.any(axis=1)), np.flatnonzero(table.any(axis=0))
    width, height = table.shape[1], table.shape[0]
    trailing = columns[0] > 0 and columns[-1] == width - 1 and len(columns) == width - columns[0]
    if trailing and len(columns) <= max(64, width // 4):
        return f"only the last {len(columns)} columns are wrong: tail"
    if len(rows) < height and table[rows].all():
        if rows[-1] == height - 1 and len(rows) == height - rows[0]:
            return f"the last {len(rows)} of {height} rows are wrong as a whole: tail"
        return f"{len(rows)} of {height} rows are wrong as a whole, first row {rows[0]}"
    if len(columns) <= 8:
        return f"only columns {', '.join(str(c) for c in columns)} of {width} are wrong"
    return ""
