"""The families of kernels that the expert can write, most specific first. To add one: write its module, add
it here. `ANCHORED` cut their own regions, and so does `FOLD`, which writes no code; the others share the planner's
growth, the lowering and the emitters.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .anchored import AnchoredFamily
from .attention import ATTENTION
from .base import Family, Technique
from .collapse import Collapse
from .convolution import Convolution
from .fold import Fold
from .layout import LAYOUT
from .local_response import LocalResponse
from .loss import LOSS
from .matmul import MatMul
from .norm import NORM
from .pointwise import Pointwise
from .pooling import Pooling
from .reduction import REDUCTION
from .scan import Scan
from .softmax import SOFTMAX
from .upsample import Upsample

ANCHORED: tuple[AnchoredFamily, ...] = (
    ATTENTION,
    LocalResponse(),
    Collapse(),
    Pooling(),
    Upsample(),
    Scan(),
    Convolution(),
    LAYOUT,
    MatMul(),
)
FOLD = Fold()
_ALL: tuple[Family, ...] = (LOSS, *ANCHORED, SOFTMAX, NORM, REDUCTION, Pointwise(), FOLD)
FAMILIES: Mapping[str, Family] = MappingProxyType({f.name: f for f in _ALL})

__all__ = ["ANCHORED", "FAMILIES", "FOLD", "AnchoredFamily", "Family", "Technique"]
