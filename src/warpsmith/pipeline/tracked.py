"""What experiment trackers get of a run beside its live state: its settings, and at the end its summary, report and kernels as files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..archive.store import Archive
from ..processes.buffers import Scratch
from ..progress import closing_line
from ..records import Candidate, RunSummary
from ..report import build_report
from ..report.html import render_html
from ..report.markdown import render_markdown
from ..tracking import Ending, Tracking
from ..tracking.values import list_final_values

SECRET_OR_LOCAL = ("archive", "cache")  # settings that say nothing of the run; an archive's may be a URL
SUFFIXES = {"c++": "cpp", "cuda": "cu"}


def list_tracked_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Flatten a run's budget, seed and configuration into text by name."""
    flat = {f"budget.{k}": v for k, v in settings["budget"].items()} | {"seed": settings["seed"]}
    flat |= {k: v for k, v in settings["config"].items() if k not in SECRET_OR_LOCAL}
    return {
        name: ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in flat.items()
        if value not in (None, [])
    }


def finish_tracking(
    tracking: Tracking, archive: Archive, summary: RunSummary, best: Candidate | None, scratch: Scratch
) -> None:
    """Tell the trackers of a run how it ended, with its files, which are deleted afterwards."""
    if tracking:
        files = write_run_files(archive, summary, best, scratch.new("tracked"))
        ending = Ending(summary.status, closing_line(summary), list_final_values(summary), files)
        tracking.finish(ending)


def write_run_files(
    archive: Archive, summary: RunSummary, best: Candidate | None, folder: Path
) -> tuple[Path, ...]:
    """Write a run's summary, its report and, of a candidate, the kernels into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    report = build_report(archive, summary.run_id)
    texts = {
        "summary.json": summary.model_dump_json(indent=2) + "\n",
        "report.md": render_markdown(report),
        "report.html": render_html(report),
    }
    for number, unit in enumerate(best.compiled if best is not None else ()):
        texts[f"unit{number}.{SUFFIXES[unit.language]}"] = unit.source
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return tuple(folder / name for name in texts)
