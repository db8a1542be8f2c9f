"""Archives as a website of static pages: a leaderboard, a page for each task, kernel and run, methods, a search, JSON.

In: opened archives and a folder. Out: the folder, complete or untouched. Nothing of an archive is trusted: text is escaped, names of
files are made of letters and digits, and what counts as a speedup is decided in `standing.py` alone.
"""

from .build import SiteCounts, build_site
from .findings import read_findings
from .suite_pages import read_suites

__all__ = ["SiteCounts", "build_site", "read_findings", "read_suites"]
