"""Targets: a unit and a graph in, a shared library out, with diagnostics when there is none."""
