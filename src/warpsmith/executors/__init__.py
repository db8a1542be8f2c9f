"""Executors: candidates in, a stream of Results out. Where they run is theirs to decide; what they mean is the judge's."""
