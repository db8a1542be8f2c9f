"""Kernels for ranges of sizes: which sizes a module is asked for, at which of them a candidate is verified and measured, and the
module that runs it at any size of the range.
"""
