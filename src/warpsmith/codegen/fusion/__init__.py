"""Fusion: which nodes a region takes in, and the chains of pointwise operations before and after its kernel."""
