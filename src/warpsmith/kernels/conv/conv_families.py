"""The families of convolutions."""

from __future__ import annotations

from ..family import Listed
from .cpu.cpp_convolution import CppConvolution
from .cuda.cuda_convolution import CudaConvolution
from .cuda.cuda_convolution_epilogue import ConvolutionTail
from .cuda.cuda_direct_convolution import DirectConvolution
from .cuda.cuda_direct_convolution_epilogue import DirectTail

FAMILIES = (
    Listed("cpu", 80, CppConvolution()),
    Listed("cuda", 60, ConvolutionTail()),
    Listed("cuda", 70, DirectTail()),
    Listed("cuda", 80, CudaConvolution()),
    Listed("cuda", 90, DirectConvolution()),
)
