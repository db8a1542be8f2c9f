"""Reductions over any axes with what is around them: sums, means, extrema, indices, norms, products."""

from __future__ import annotations

from ..axes import REDUCING
from .loops import ReducingFamily

REDUCTION = ReducingFamily(
    "reduction", frozenset(REDUCING - {"logsumexp", "var", "std", "var_mean"}), compound=False
)
