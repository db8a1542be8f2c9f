"""Pages from templates. A page is a frame with parts; a part is an element whose content is sent anew when it changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from markupsafe import Markup

from .. import __version__
from ..archive import Entry
from ..archive.activities import KILLED
from ..pages.highlighting import highlight_source
from ..pages.rendering import make_environment
from ..records import Task
from ..report.parts import checks
from ..wording import label
from .asking import list_ideas, list_regions
from .feed import Parts
from .site_folder import SiteFolder
from .views import Details, Views, make_line

HERE = Path(__file__).parent
OVERVIEW_PARTS = ("working", "finished")
ACTIVITY_PARTS = ("state", "best", "progress", "stages", "children", "attempts", "requests", "log")


class Pages:
    def __init__(self, views: Views) -> None:
        self.views = views
        self.environment = make_environment(HERE / "templates")
        self.environment.filters["when"] = show_time
        self.environment.globals |= {"version": __version__, "killed": KILLED}

    def render_parts(self, page: str) -> Parts:
        """Render the parts of a page: "" is the overview, else an activity's id. Empty where there is no such activity."""
        if not page:
            overview = self.views.load_overview()
            return {name: self._render(f"parts/{name}.html", overview=overview) for name in OVERVIEW_PARTS}
        details = self.views.load_details(page)
        return self._render_activity_parts(details) if details is not None else {}

    def render_overview(self) -> str:
        return self._render("overview.html", parts=self._mark(self.render_parts("")), page="")

    def render_activity(
        self, activity_id: str, trouble: str = "", fields: dict[str, str] | None = None
    ) -> str | None:
        """Render an activity's page; None where there is none. `fields`: of a form that could not be taken, with the `trouble`."""
        details = self.views.load_details(activity_id)
        if details is None:
            return None
        activity = details.card.activity
        task = self.views.find_task(activity) if activity.kind == "run" else None
        open_now = details.card.standing in ("working", "stopping")
        ideas = list_ideas(task, activity.target) if task is not None and open_now else []
        regions = list_regions(task, activity.target) if task is not None and open_now else []
        parts = self._mark(self._render_activity_parts(details))
        return self._render(
            "activity.html", parts=parts, page=activity_id, card=details.card, activity=activity, open=open_now, ideas=ideas,
            regions=regions, has_task=task is not None, trouble=trouble, fields=fields or {},
        )  # fmt: skip

    def render_candidate(self, candidate_id: str) -> str | None:
        loaded = self.views.load_candidate(candidate_id)
        if loaded is None:
            return None
        entries, task = loaded
        return self._render("candidate.html", page=None, **describe_candidate(entries, task))

    def render_site(self, site: SiteFolder) -> str:
        return self._render("site.html", page=None, site=site)

    def render_message(self, title: str, text: str) -> str:
        return self._render("message.html", page=None, title=title, text=text)

    def _render_activity_parts(self, details: Details) -> Parts:
        return {name: self._render(f"parts/{name}.html", d=details) for name in ACTIVITY_PARTS}

    def _render(self, template: str, **values: Any) -> str:
        return self.environment.get_template(template).render(**values)

    def _mark(self, parts: Parts) -> dict[str, Markup]:
        """Mark as HTML what a template made of escaped text: it goes into a frame as it is."""
        return {name: Markup(html) for name, html in parts.items()}


def describe_candidate(entries: list[Entry], task: Task) -> dict[str, Any]:
    latest = entries[-1]
    verdict = latest.result.verdict
    failed = verdict.failed if verdict is not None else None
    units = [
        {"title": u.technique or u.family or "unit", "lines": Markup("\n").join(highlight_source(u.text, u.language)), "values": u.values}
        for u in latest.candidate.units
    ]  # fmt: skip
    return {
        "task": task, "candidate": latest.candidate, "label": label(latest.candidate), "results": [make_line(e) for e in entries],
        "checks": checks(latest), "units": units,
        "failure": f"{failed.rule} on {failed.family} inputs ({failed.variant}): {failed.detail}" if failed is not None else "",
    }  # fmt: skip


def show_time(moment: str) -> str:
    """Write a time of the archive, "2026-01-02T03:04:05.678+00:00", to the second."""
    return moment[:19].replace("T", " ") if moment else ""
