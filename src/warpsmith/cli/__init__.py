"""The command line: a thin face over `warpsmith.api`, the archive, the reports and the exports."""

from .main import app, main

__all__ = ["app", "main"]
