"""The families of attention."""

from __future__ import annotations

from ..family import Listed
from .cpu.cpp_attention import CppAttention
from .cuda.cuda_attention import CudaAttention

FAMILIES = (
    Listed("cpu", 20, CppAttention()),
    Listed("cuda", 20, CudaAttention()),
)
