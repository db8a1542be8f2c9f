"""The families of kernels that the expert can write in CUDA C++, most specific first; to add one, write its module and
add it here. They cover the same nodes as the C++ families of the same names. FOLD writes no code and is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..families import FOLD, AnchoredFamily, Family
from ..families.loss import LOSS
from ..families.norm import NORM
from ..families.reduction import REDUCTION
from ..families.softmax import SOFTMAX
from .attention import CudaAttention
from .collapse import CudaCollapse
from .convolution import CudaConvolution
from .convolution_tail import ConvolutionTail
from .direct_convolution import DirectConvolution
from .direct_tail import DirectTail
from .matmul import CudaMatMul
from .memory_bound import Pointwise, ReducingFamily
from .pooling import CudaPooling
from .scan import CudaScan

ANCHORED: tuple[AnchoredFamily, ...] = (
    CudaAttention(),
    CudaCollapse(),
    CudaMatMul(),
    ConvolutionTail(),
    DirectTail(),
    CudaConvolution(),
    DirectConvolution(),
    CudaPooling(),
    CudaScan(),
)
_REDUCING = (ReducingFamily(f.name, f) for f in (LOSS, SOFTMAX, NORM, REDUCTION))
_FIRST, *_REST = _REDUCING
_ALL: tuple[Family, ...] = (_FIRST, *ANCHORED, *_REST, Pointwise(), FOLD)
FAMILIES: Mapping[str, Family] = MappingProxyType({f.name: f for f in _ALL})

__all__ = ["ANCHORED", "FAMILIES"]
