"""Pointwise operations in one pass."""
