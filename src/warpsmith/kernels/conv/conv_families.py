"""The families of convolutions."""

from __future__ import annotations

from ..family import Listed
from .cpu.cpp_convolution import CppConvolution
from .cuda.cuda_convolution import CudaConvolution
from .cuda.cuda_convolution_epilogue import ConvolutionEpilogue
from .cuda.cuda_direct_convolution import DirectConvolution
from .cuda.cuda_direct_convolution_epilogue import DirectConvolutionEpilogue

FAMILIES = (
    Listed("cpu", 80, CppConvolution()),
    Listed("cuda", 60, ConvolutionEpilogue()),
    Listed("cuda", 70, DirectConvolutionEpilogue()),
    Listed("cuda", 80, CudaConvolution()),
    Listed("cuda", 90, DirectConvolution()),
)
