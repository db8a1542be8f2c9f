"""The families of pointwise operations."""

from __future__ import annotations

from ..family import Listed
from .cpu.cpp_pointwise import CppPointwise
from .cuda.cuda_pointwise import CudaPointwise

FAMILIES = (
    Listed("cpu", 170, CppPointwise()),
    Listed("cuda", 170, CudaPointwise()),
)
