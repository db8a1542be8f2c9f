"""Files of a site: pages by templates, JSON, data for the script, and text."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup
from pydantic_core import to_json

from ..pages.rendering import make_environment, read_style

HERE = Path(__file__).parent
PAGES = (
    ("index.html", "Leaderboard"), ("map.html", "Map"), ("found.html", "What we found"), ("methods.html", "Methods"), ("search.html", "Search"),
    ("json.html", "Data"),
)  # fmt: skip  # of the navigation
STATIC = ("site.js", "search.js", "map.js", "icon.svg")


def _make_site_environment() -> Environment:
    environment = make_environment(HERE / "templates")
    environment.globals["pages"] = PAGES
    return environment


@dataclass
class Writer:
    """Writes below one folder, and counts pages."""

    folder: Path
    pages: int = 0
    environment: Environment = field(default_factory=_make_site_environment)

    def write_page(self, path: str, template: str, **values: Any) -> None:
        """Render a page. `root` leads from it to the site's root."""
        text = self.environment.get_template(template).render(
            root="../" * path.count("/"), path=path, **values
        )
        self.write_text(path, text)
        self.pages += 1

    def render_rows(self, table: Any) -> list[Markup]:
        """Render the rows of a table one by one, as a page at the root would."""
        module = self.environment.get_template("macros.html").module
        return [module.row("", row) for row in table.rows]  # type: ignore[attr-defined]

    def write_json(self, path: str, data: Any) -> None:
        finite = json.loads(to_json(data, inf_nan_mode="strings"))  # JSON has no infinity
        self.write_text(path, json.dumps(finite, ensure_ascii=True, indent=1, allow_nan=False) + "\n")

    def write_script(self, path: str, function: str, *data: Any) -> None:
        """Write a script that hands data to a function of the site's script: a page from a file may not fetch."""
        texts = (
            json.dumps(d, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c") for d in data
        )
        self.write_text(path, f"warpsmith.{function}({','.join(texts)});\n")

    def write_text(self, path: str, text: str) -> None:
        self.write_bytes(path, text.encode("utf-8", "replace"))

    def write_bytes(self, path: str, data: bytes) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def write_static(self) -> None:
        style = (HERE / "static" / "site.css").read_text(encoding="utf-8")
        self.write_text("site.css", read_style("pages", "charts") + style)
        for name in STATIC:
            self.write_text(name, (HERE / "static" / name).read_text(encoding="utf-8"))

    def count_bytes(self) -> int:
        return sum(p.stat().st_size for p in self.folder.rglob("*") if p.is_file())
