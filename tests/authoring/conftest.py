"""A service that judges by formula."""

from scripted_author_session import service, task

__all__ = ["service", "task"]
