"""The families of collapsed linear maps."""

from __future__ import annotations

from ..family import Listed
from .cpp_collapse import CppCollapse
from .cuda_collapse import CudaCollapse

FAMILIES = (
    Listed("cpu", 40, CppCollapse()),
    Listed("cuda", 40, CudaCollapse()),
)
