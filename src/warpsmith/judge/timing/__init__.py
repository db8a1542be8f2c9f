"""Timing as deployed: processes that each time one callable, interleaved rounds over them, statistics, and what keeps clocks honest."""
