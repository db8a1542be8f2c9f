"""A desk that judges by formula."""

from scripted_sitting import desk, task

__all__ = ["desk", "task"]
