"""The archive as something to read: a run as text, markdown, one self-contained HTML file or JSON; a
suite as a table.

Every format is drawn from the same blocks (`blocks.py`), so that they never tell different stories.
"""

from .blocks import Report
from .build import build_report
from .render import FORMATS, render
from .suite import suite_json, suite_table

__all__ = ["FORMATS", "Report", "build_report", "render", "suite_json", "suite_table"]
