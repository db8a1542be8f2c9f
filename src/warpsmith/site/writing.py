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


@dataclass
class Writer:
    """Writes below one folder, and counts pages."""

    folder: Path
    pages: int = 0
    environment: Environment = field(default_factory=lambda: make_environment(HERE / "templates"))

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

    def write_script(self, path: str, function: str, data: Any) -> None:
        """Write a script that hands data to a function of the site's script: a page from a file may not fetch."""
        text = json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
        self.write_text(path, f"warpsmith.{function}({text});\n")

    def write_text(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode("utf-8", "replace"))

    def write_static(self) -> None:
        self.write_text("site.css", read_style("pages", "charts"))
        self.write_text("site.js", (HERE / "static" / "site.js").read_text(encoding="utf-8"))

    def count_bytes(self) -> int:
        return sum(p.stat().st_size for p in self.folder.rglob("*") if p.is_file())
