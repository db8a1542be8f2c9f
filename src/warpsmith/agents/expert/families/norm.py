"""Layer norm, batch norm, instance norm, group norm, variance and standard deviation: mean and squared deviations, then what uses them.

RMS norm is a plain sum of squares and belongs to the reductions.
"""

from __future__ import annotations

from ..axes import BATCH_NORMS, GROUP_NORM
from .loops import ReducingFamily

NORM = ReducingFamily(
    "norm",
    frozenset({"native_layer_norm", GROUP_NORM, *BATCH_NORMS, "var", "std", "var_mean"}),
    compound=True,
)
