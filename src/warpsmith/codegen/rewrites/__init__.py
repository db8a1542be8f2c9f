"""Algebra on graphs: folded normalisations, collapsed sums; a rewritten region in ATen."""
