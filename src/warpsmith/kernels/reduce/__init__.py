"""Reductions: sums, extrema, softmax, norms, losses, along rows or columns."""
