"""Input families: what a task's inputs are replaced with, so that a shortcut which holds on the task's own
inputs shows.

In: a graph's inputs with the task's own values, a family's name and a seed. Out: a values file with fresh
values for every role. The task's own inputs are often U[0,1), on which ReLU is the identity and a sum hardly
depends on its small terms.

Each family is one small function `(rng, own) -> values` for a floating *input*. Parameters and buffers keep
their scale and, where all of one sign, their sign (a running variance stays positive). Integers keep the
range of the task's own (they may be indices), bools their mix; values with inf or NaN in them (masks) are
kept as they are. Triangular matrices stay triangular and symmetric ones symmetric: that is what the task is about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..processes.buffers import ValuesFile
from ..records import GraphInput
from .layout import FLOATS
from .tolerance import from_float64

Array = npt.NDArray[Any]
Rng = np.random.Generator


def normal(rng: Rng, own: Array) -> Array:
    """N(0, 1): signs mixed, so that cancellation makes a lost bit count."""
    return _gauss(rng, own)


def heavy(rng: Rng, own: Array) -> Array:
    """Log-normal magnitudes of either sign over about six decades: few elements carry the sum."""
    return _gauss(rng, own) * np.exp(1.5 * _gauss(rng, own))


def large(rng: Rng, own: Array) -> Array:
    """N(0, 64²): exp without a subtracted maximum overflows, saturating functions saturate."""
    return _gauss(rng, own) * own.dtype.type(64)


def tiny(rng: Rng, own: Array) -> Array:
    """N(0, 1e-8): what is added to keep from dividing by zero decides."""
    return _gauss(rng, own) * own.dtype.type(1e-4)


def offset(rng: Rng, own: Array) -> Array:
    """50 + N(0, 1): a variance from the difference of squares loses its digits."""
    return _gauss(rng, own) + own.dtype.type(50)


def close(rng: Rng, own: Array) -> Array:
    """1 + U[0, 2^-9): distinct in fp32, tied in lower precision, so that an index found in bf16 is wrong."""
    return own.dtype.type(1) + rng.random(own.shape, np.float32) * own.dtype.type(2.0**-9)


def sparse(rng: Rng, own: Array) -> Array:
    """Nine in ten are zero."""
    return _gauss(rng, own) * (rng.random(own.shape, np.float32) < 0.1)


def constant_rows(rng: Rng, own: Array) -> Array:
    """Each row (last axis) one value: variance zero, every element ties for the maximum."""
    rows = _gauss(rng, np.empty((*own.shape[:-1], 1) if own.ndim else (), own.dtype))
    return np.broadcast_to(rows, own.shape)


def integers(rng: Rng, own: Array) -> Array:
    """Integers in [-4, 4]: sums of products are exact in any order."""
    return rng.integers(-4, 5, own.shape, np.int8).astype(own.dtype)


def shuffled(rng: Rng, own: Array) -> Array:
    """The task's own values, permuted and scaled by log-normal factors: their signs and their scale stay."""
    return _rescaled(rng, own)


FAMILIES: dict[str, Callable[[Rng, Array], Array]] = {
    "normal": normal, "heavy": heavy, "large": large, "tiny": tiny, "offset": offset, "close": close,
    "sparse": sparse,
    "constant-rows": constant_rows, "integers": integers, "shuffled": shuffled,
}  # fmt: skip
# Many equal terms: the roundings of a running sum then all lean one way instead of walking at random.
REPEATED = frozenset({"sparse", "constant-rows"})
OWN = "own"  # the task's own generator at another seed; made by the task host, not here


def fill(family: str, seed: int, inputs: Sequence[GraphInput], own: Path, path: Path) -> None:
    """Write the values file `path` for `inputs` from the task's own values in `own` (same layout). Raises
    KeyError, JudgeError.
    """
    make = FAMILIES[family]
    specs = [i.spec for i in inputs]
    source, target = ValuesFile(own, specs), ValuesFile(path, specs, create=True)
    for index, item in enumerate(inputs):
        rng = np.random.Generator(np.random.SFC64([seed, index]))
        array, old = target.array(index), source.array(index)
        if old.size == 0:
            continue
        if item.spec.dtype not in FLOATS:
            array[...] = _discrete(rng, old)
            continue
        values = _as_float(old, item.spec.dtype)
        if not np.isfinite(values).all():
            array[...] = old
            continue
        if item.role == "input":
            fresh = _of_like_form(np.asarray(make(rng, values)), values)
        elif family == "integers":
            fresh = _integer_parameter(rng, values)
        else:
            fresh = _parameter(rng, values)
        array[...] = _as_stored(fresh, item.spec.dtype)


def _of_like_form(fresh: Array, own: Array) -> Array:
    """Triangular where the task's own square matrices are, symmetric where they are; diagonal is both triangles."""
    if own.ndim < 2 or own.shape[-1] != own.shape[-2] or own.shape[-1] < 2 or own.min() == own.max():
        return fresh
    if not np.triu(own, 1).any():
        fresh = np.tril(fresh)
    if not np.tril(own, -1).any():
        fresh = np.triu(fresh)
    if np.array_equal(own, own.swapaxes(-1, -2)):
        upper = np.triu(fresh)
        fresh = upper + np.triu(fresh, 1).swapaxes(-1, -2)
    return fresh


def _parameter(rng: Rng, own: Array) -> Array:
    """A fresh weight of the old one's scale. All zero (a bias at its start): N(0, 0.25), so that leaving it
    out shows.
    """
    if not own.any():
        return _gauss(rng, own) * own.dtype.type(0.5)
    if (own >= 0).all() or (own <= 0).all():
        return _rescaled(rng, own)
    return own.dtype.type(own.mean()) + _gauss(rng, own) * own.dtype.type(own.std())


def _integer_parameter(rng: Rng, own: Array) -> Array:
    low = 1 if own.any() and (own >= 0).all() else -3
    return rng.integers(low, 4, own.shape, np.int8).astype(own.dtype)


def _rescaled(rng: Rng, own: Array) -> Array:
    flat = (
        rng.permutation(own.reshape(-1)) if own.size <= 1 << 22 else np.roll(own.reshape(-1), own.size // 3)
    )
    return flat.reshape(own.shape) * np.exp(own.dtype.type(0.3) * _gauss(rng, own))


def _discrete(rng: Rng, own: Array) -> Array:
    """A permutation of the own values; of bools all alike, and of one integer repeated, nothing better is
    known to be legal.
    """
    flat = own.reshape(-1)
    if own.dtype == np.bool_ and (flat == flat[0]).all():
        return rng.random(own.shape, np.float32) < 0.5
    return rng.permutation(flat).reshape(own.shape)


def _gauss(rng: Rng, like: Array) -> Array:
    return rng.standard_normal(like.shape, dtype=np.float64 if like.dtype == np.float64 else np.float32)


def _as_float(stored: Array, dtype: str) -> Array:
    """float64 stays, everything else is worked on in float32."""
    if dtype == "bfloat16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored if dtype == "float64" else stored.astype(np.float32, copy=False)


def _as_stored(values: Array, dtype: str) -> Array:
    if dtype == "bfloat16":
        return from_float64(values, dtype)
    return values
