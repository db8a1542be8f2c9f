"""The families of scans."""

from __future__ import annotations

from ..family import Listed
from .cpu.cpp_scan import CppScan
from .cuda.cuda_scan import CudaScan

FAMILIES = (
    Listed("cpu", 70, CppScan()),
    Listed("cuda", 110, CudaScan()),
)
