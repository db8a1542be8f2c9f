"""The families of data movement."""

from __future__ import annotations

from ..family import Listed
from .cpu.cpp_data_movement import CppDataMovement
from .cuda.cuda_data_movement import CudaDataMovement

FAMILIES = (
    Listed("cpu", 120, CppDataMovement()),
    Listed("cuda", 120, CudaDataMovement()),
)
