"""Somebody else's solution, a Python file with `ModelNew`, judged: is it right, is it faster, who does the work."""
