"""One entry for every format: an archive and a run's id in, the report's text out."""

from __future__ import annotations

from collections.abc import Callable

from ..archive.reading import ArchiveReader
from ..errors import UsageError
from .blocks import Report
from .build import build_report
from .html import render_html
from .markdown import render_markdown
from .text import render_text


def render(archive: ArchiveReader, run_id: str | None = None, format: str = "text") -> str:
    """The report of a run (None: the latest) as "text", "markdown", "html" or "json".

    Raises ArchiveError when there is no such run, UsageError for an unknown format.
    """
    if format not in FORMATS:
        raise UsageError(f"unknown report format {format!r}: choose one of {', '.join(FORMATS)}")
    return FORMATS[format](build_report(archive, run_id))


def render_json(report: Report) -> str:
    return report.model_dump_json(indent=2) + "\n"


FORMATS: dict[str, Callable[[Report], str]] = {
    "text": render_text, "markdown": render_markdown, "html": render_html, "json": render_json,
}  # fmt: skip
