"""The families of pooling."""

from __future__ import annotations

from ..family import Listed
from .cpu.cpp_pooling import CppPooling
from .cuda.cuda_pooling import CudaPooling

FAMILIES = (
    Listed("cpu", 50, CppPooling()),
    Listed("cuda", 100, CudaPooling()),
)
