"""On-device comparison of an output with the truth, where the truth lies, with torch.

In: what the reference worker knows of an output (`TruthTensors`, what each element may miss by) and the output. Out: the worst
shares of the budget if it surely keeps it by the rules of `tolerance.Tolerance`, None where somebody must look more closely: what is wrong,
doubtful, not finite or of a kind that is compared otherwise goes to the host, which also says what is wrong. Nothing of the truth
is copied for the many outputs that are right.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..layout import FLOATS
from .error_budget import FLOOR, UNIT_ROUNDOFF, ErrorBudget
from .oracle import TruthTensors
from .tolerance import TELLING

PIECE = {"cpu": 1 << 18, "cuda": 1 << 25}  # elements at a time: bounds the temporaries


def compare_on_device(
    dtype: str, truth: TruthTensors, rule: ErrorBudget | None, actual: Tensor
) -> tuple[float, float] | None:
    """(worst share of the budget, worst ulp) of an output that is surely right. The truth's noise is what each element may miss by."""
    if dtype == "bool" or tuple(actual.shape) != tuple(truth.native.shape):
        return None  # a byte other than 0 and 1 must not pass for True
    if dtype not in FLOATS or truth.exact:
        return (0.0, 0.0) if torch.equal(actual, truth.native) else None
    if rule is None:
        return None
    flat, oracle, allowed = (t.reshape(-1) for t in (actual, truth.oracle, truth.noise))
    worst, square, ulp = 0.0, 0.0, 0.0
    step = PIECE[flat.device.type]
    for start in range(0, flat.numel(), step):
        part = slice(start, start + step)
        error = (flat[part].double() - oracle[part]).abs()
        share = float((error / allowed[part]).max())
        square += float((error * error).sum())
        if not share <= 1.0:  # NaN, too
            return None
        size = (2 * UNIT_ROUNDOFF[dtype] * oracle[part].abs()).clamp_min(FLOOR[dtype])
        worst, ulp = max(worst, share), max(ulp, float((error / size).max()))
    rms_share = (square / max(flat.numel(), 1)) ** 0.5 / rule.rms
    if not rms_share <= 1.0:
        return None
    return max(worst, rms_share), ulp if worst > TELLING else 0.0
