"""Observers that each look at one property of a candidate beyond its verdict and its time, and the sanitizers that
a winner must pass.
"""
