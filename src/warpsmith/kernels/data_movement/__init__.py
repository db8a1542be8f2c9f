"""Permutations, concatenations, slices, gathers: each output element fetched from where it comes from."""
