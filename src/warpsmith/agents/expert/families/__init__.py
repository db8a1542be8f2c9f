"""The families of kernels that the expert can write, most specific first. To add one: write its module, add
it here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .base import Family, Technique
from .norm import NORM
from .pointwise import Pointwise
from .reduction import REDUCTION
from .softmax import SOFTMAX

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {f.name: f for f in (SOFTMAX, NORM, REDUCTION, Pointwise())}
)

__all__ = ["FAMILIES", "Family", "Technique"]
