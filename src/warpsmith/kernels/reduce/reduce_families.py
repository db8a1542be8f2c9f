"""The families of reductions."""

from __future__ import annotations

from ..family import Listed
from .cpu.cpp_loss import CppLoss
from .cpu.cpp_reduction import CppReduction
from .cuda.cuda_reduction import CudaReduction
from .reduction_pattern import LOSS, NORM, REDUCTION, SOFTMAX

FAMILIES = (
    Listed("cpu", 10, CppLoss(LOSS)),
    Listed("cuda", 10, CudaReduction(LOSS)),
    Listed("cpu", 140, CppReduction(SOFTMAX)),
    Listed("cuda", 140, CudaReduction(SOFTMAX)),
    Listed("cpu", 150, CppReduction(NORM)),
    Listed("cuda", 150, CudaReduction(NORM)),
    Listed("cpu", 160, CppReduction(REDUCTION)),
    Listed("cuda", 160, CudaReduction(REDUCTION)),
)
