"""Convolutions: direct and implicit GEMM, with fused epilogues."""
