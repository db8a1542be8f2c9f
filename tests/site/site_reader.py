"""Reads a built site as a browser would: tags, ids, links, and what a page may not have."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

VOID = frozenset({"meta", "link", "input", "br", "hr", "img", "circle", "path", "wbr"})


@dataclass
class Page(HTMLParser):
    """One page. `problems` are tags that do not close, inline scripts and styles, tables without caption or scopes."""

    path: Path
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    text: str = ""
    open_tags: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.path.read_text(encoding="utf-8"))
        self.close()
        self.problems += [f"{tag} is open" for tag in self.open_tags]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.links += [values[name] or "" for name in ("href", "src") if name in values]
        self.problems += [f"{tag} has {name}" for name in values if name.startswith("on") or name == "style"]
        self.problems += ["an inline script" for _ in range(tag == "script" and "src" not in values)]
        self.problems += ["an inline style" for _ in range(tag == "style")]
        self.problems += ["th without scope" for _ in range(tag == "th" and "scope" not in values)]
        self.problems += ["svg without a label" for _ in range(tag == "svg" and not values.get("aria-label"))]
        if tag not in VOID:
            self.open_tags.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open_tags or self.open_tags.pop() != tag:
            self.problems.append(f"</{tag}> closes nothing at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        self.text += data


def find_broken_links(folder: Path) -> list[str]:
    """List links of all pages that lead to no file, to no anchor, or out of the site."""
    broken = []
    for path in folder.rglob("*.html"):
        for link in Page(path).links:
            parts = urlsplit(link)
            if (
                parts.scheme in ("http", "https") and path.parent.name == "docs"
            ):  # the documentation's own references
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if (
                parts.scheme
                or parts.netloc
                or not target.is_relative_to(folder.resolve())
                or not target.is_file()
            ) or (parts.fragment and parts.fragment not in Page(target).ids):
                broken.append(f"{path.name}: {link}")
    return broken
