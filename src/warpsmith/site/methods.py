"""The page of methods, and pages of the documentation where the program runs from a checkout."""

from __future__ import annotations

import posixpath
import re
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from .tables import make_table
from .writing import Writer

DOCUMENTS = (
    "glossary.md", "architecture.md", "threat-model.md", "coverage.md", "how-to/judge.md", "how-to/admission.md", "how-to/noisy-machine.md",
)  # fmt: skip
CHECKOUT_DOCS = Path(__file__).resolve().parents[3] / "docs"
OUTCOMES = (
    (
        "win",
        "correct, the whole interval over the fastest baseline above 1, and confirmed in fresh processes",
    ),
    ("unconfirmed", "faster in its one measurement; not confirmed"),
    ("no win", "correct; the interval over the fastest baseline holds 1"),
    ("loss", "correct; the whole interval below 1"),
    ("too noisy", "correct; the interval is too wide to tell anything"),
    ("unexplained", "faster than the reference's arithmetic allows, and nothing says why: it does not count"),
    ("screened", "right where screening looked; an estimate, no verdict and no speedup"),
    ("failed", "not built, refused, wrong, crashed, too slow for the judge, or no honest measurement"),
    ("quarantined", "of a task on which a wrong answer passes: nothing on it counts"),
    ("nothing judged", "a run began, and judged nothing"),
)
WORDS = (
    ("task", "a reference module in PyTorch with its inputs and shapes"),
    ("kernel", "a candidate: the task's graph with generated code in some of its regions"),
    ("unit", "one source for one region, with its tunables"),
    ("speedup", "time of a baseline over time of the kernel, measured side by side; above 1 is faster"),
    ("fastest baseline", "of eager and torch.compile, as far as they were measured: the smallest ratio"),
    ("interval", "95% by bootstrap over rounds; its low end is what is sure, and ranks go by it"),
    (
        "limit",
        "the least time that the machine's measured peaks allow: bytes moved or arithmetic, whichever is longer",
    ),
    ("imported", "judged by another machine's program; this archive's own judges have not repeated it"),
)


def write_methods(writer: Writer, docs: Path = CHECKOUT_DOCS) -> None:
    """Write the page of methods, and the documents that there are."""
    documents = {
        name: (docs / name).read_text(encoding="utf-8") for name in DOCUMENTS if (docs / name).is_file()
    }
    titles = []
    for name, text in documents.items():
        title, body = render_document(name, text, frozenset(documents))
        titles.append((_get_page(name), title))
        writer.write_page(f"docs/{_get_page(name)}.html", "document.html", title=title, body=body)
    writer.write_page(
        "methods.html", "methods.html", documents=titles,
        outcomes=make_table("Outcomes of a kernel", ("outcome", "meaning"), OUTCOMES),
        words=make_table("Words of these pages", ("word", "meaning"), WORDS),
    )  # fmt: skip


def render_document(name: str, text: str, pages: frozenset[str]) -> tuple[str, Markup]:
    """Return a document's title and its body. Links to documents that have no page become plain text."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL))
    title = next((t.content for t in tokens if t.type == "inline"), name)
    for token, after in pairwise(tokens):
        if token.type == "heading_open":
            token.attrSet("id", make_anchor(after.content))
    for token in tokens:
        if token.type == "th_open":
            token.attrSet("scope", "col")
        if token.type in ("fence", "code_block"):
            token.type, token.content = "html_block", _write_code(token.content)
        if token.children:
            token.children = list(_fit_links(token.children, name, pages))
    return re.sub(r"[`*]", "", title), Markup(parser.renderer.render(tokens, parser.options, {}))


def _write_code(text: str) -> str:
    """Write a block of code that the keyboard can reach, because it may have to be scrolled."""
    return Markup('<pre tabindex=0 role=region aria-label="Code">{}</pre>\n').format(text)


def make_anchor(title: str) -> str:
    """Make a heading's id as MkDocs does."""
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


def _fit_links(children: list[Token], name: str, pages: frozenset[str]) -> list[Token]:
    tokens, open_links = [], []
    for token in children:
        if token.type == "link_open":
            href = _find_href(str(token.attrGet("href") or ""), name, pages)
            open_links.append(bool(href))
            token.attrSet("href", href)
        keep = token.type not in ("link_open", "link_close") or open_links[-1]
        if token.type == "link_close":
            open_links.pop()
        if token.type == "image":  # the policy of the pages loads none
            token = Token("text", "", 0, content=token.content)
        tokens += [token] if keep else []
    return tokens


def _find_href(href: str, name: str, pages: frozenset[str]) -> str:
    """Return where a link leads on the site; empty: nowhere."""
    parts = urlsplit(href)
    if parts.scheme or href.startswith("#"):
        return href
    target = posixpath.normpath(posixpath.join(posixpath.dirname(name), parts.path))
    return (
        f"{_get_page(target)}.html" + (f"#{parts.fragment}" if parts.fragment else "")
        if target in pages
        else ""
    )


def _get_page(name: str) -> str:
    return name.removesuffix(".md").replace("/", "-")
