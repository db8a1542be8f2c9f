"""A service that judges by formula."""

from scripted_author_session import author, service, spec, task

__all__ = ["author", "service", "spec", "task"]
