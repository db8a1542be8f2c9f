"""Warpsmith: point it at a PyTorch module; get back a verified, faster one, and proof."""

__version__ = "0.1.0"
