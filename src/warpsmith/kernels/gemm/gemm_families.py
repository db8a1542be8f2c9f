"""The families of matrix products."""

from __future__ import annotations

from ..family import Listed
from .cpu.cpp_matmul import CppMatMul
from .cuda.cuda_matmul import CudaMatMul

FAMILIES = (
    Listed("cpu", 130, CppMatMul()),
    Listed("cuda", 50, CudaMatMul()),
)
