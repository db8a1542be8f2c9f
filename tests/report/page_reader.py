"""Reads a page in one file as a browser would: what closes, what is linked, what would load or run."""

from __future__ import annotations

import base64
import hashlib
import re
from html import unescape
from html.parser import HTMLParser

VOID = frozenset({"meta", "link", "input", "br", "hr", "img", "circle", "path", "line", "rect"})
TAGS = frozenset(
    [
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "header",
        "main",
        "nav",
        "section",
        "footer",
        "h1",
        "h2",
        "h3",
        "p",
        "a",
        "b",
        "i",
        "ol",
        "ul",
        "li",
        "dl",
        "dt",
        "dd",
        "div",
        "span",
        "code",
        "pre",
        "mark",
        "details",
        "summary",
        "figure",
        "figcaption",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "small",
        "svg",
        "desc",
        "g",
        "line",
        "rect",
        "circle",
        "text",
    ]
)
ATTRIBUTES = frozenset(
    [
        "lang",
        "charset",
        "http-equiv",
        "content",
        "name",
        "class",
        "id",
        "href",
        "tabindex",
        "role",
        "aria-label",
        "aria-labelledby",
        "aria-hidden",
        "scope",
        "data-label",
        "width",
        "height",
        "x",
        "y",
        "x1",
        "x2",
        "y1",
        "y2",
        "cx",
        "cy",
        "r",
        "text-anchor",
    ]
)


class PageReader(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.ids: list[str] = []
        self.links: list[str] = []
        self.problems: list[str] = []
        self.open_tags: list[str] = []
        self.headings: list[tuple[str, str]] = []  # (id, text) of each h2
        self.text = self.style = self.policy = ""
        self.feed(page)
        self.close()
        self.problems += [f"{tag} is open" for tag in self.open_tags]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {k: v or "" for k, v in attrs}
        self.problems += [tag for _ in range(tag not in TAGS)]
        self.problems += [f"{tag} has {name}" for name in values if name not in ATTRIBUTES]
        self.problems += ["th without scope" for _ in range(tag == "th" and "scope" not in values)]
        self.problems += ["svg without a label" for _ in range(tag == "svg" and not values.get("aria-label"))]
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if "href" in values else []
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"]
        if tag == "h2":
            self.headings.append((values.get("id", ""), ""))
        if tag not in VOID:
            self.open_tags.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and (not self.open_tags or self.open_tags.pop() != tag):
            self.problems.append(f"</{tag}> closes nothing at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        if self.open_tags and self.open_tags[-1] == "style":
            self.style += data
            return
        self.text += data
        if "h2" in self.open_tags:
            self.headings[-1] = (self.headings[-1][0], self.headings[-1][1] + data)


def find_faults(page: str) -> list[str]:
    """List what is wrong with a page in one file, whatever an archive holds."""
    reader = PageReader(page)
    faults = [*reader.problems]
    digest = base64.b64encode(hashlib.sha256(reader.style.encode()).digest()).decode()
    expected = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    faults += [f"the policy is {reader.policy}" for _ in range(reader.policy != expected)]
    faults += [
        f"links to {link}" for link in reader.links if not (link[:1] == "#" and link[1:] in reader.ids)
    ]
    faults += ["an id is there twice" for _ in range(len(set(reader.ids)) != len(reader.ids))]
    faults += [f"an address: {match[0]}" for match in re.finditer(r"url\([^)]*\)|@import", reader.style)]
    return faults


def read_contents(page: str) -> list[str]:
    """Return the titles in the list of contents."""
    nav = re.search(r"<nav class=contents[^>]*>(.*?)</nav>", page, re.DOTALL)
    return [unescape(title) for title in re.findall(r'<a href="#[\w-]+">(.*?)</a>', nav[1])] if nav else []
