"""The pages of the knowledge base: one idea each, as Markdown with a few lines of front matter.

A file's text comes in, a `Page` goes out. Front matter is `key: value` lines between two lines of three dashes; lists are
separated by commas. `pages()` reads what is installed with the package.
"""

from __future__ import annotations

from importlib import resources

from ..errors import UsageError
from ..records import Record

LISTS = ("targets", "families", "keywords", "sources")
KEYS = ("title", *LISTS, "kind")
PERFORMANCE = "performance"  # the kind of a page that no failure is mended by
TARGETS = ("cpu", "cuda")


class Page(Record):
    """`name` is the file's name without its ending; `families` may be empty: then it is about all."""

    name: str
    title: str
    targets: tuple[str, ...]
    families: tuple[str, ...]
    keywords: tuple[str, ...]
    sources: tuple[str, ...]
    body: str
    kind: str = ""  # "performance", or empty: it serves a failure, too


def parse(name: str, text: str) -> Page:
    """Raises UsageError naming the page and what is wrong with its front matter."""
    head, closed, body = text.removeprefix("---\n").partition("\n---\n")
    if not text.startswith("---\n") or not closed:
        raise UsageError(f"knowledge page {name}: it begins with front matter between two lines '---'")
    fields: dict[str, str] = {}
    for line in head.splitlines():
        key, colon, value = line.partition(":")
        if not colon or key not in KEYS or key in fields:
            raise UsageError(f"knowledge page {name}: '{line}' is not one of: {', '.join(KEYS)}")
        fields[key] = value.strip()
    lists = {key: tuple(v.strip() for v in fields.get(key, "").split(",") if v.strip()) for key in LISTS}
    if fields.get("kind", "") not in ("", PERFORMANCE):
        raise UsageError(f"knowledge page {name}: kind is '{PERFORMANCE}', or left out")
    unknown = [target for target in lists["targets"] if target not in TARGETS]
    if not fields.get("title") or not lists["targets"] or unknown or not body.strip():
        raise UsageError(
            f"knowledge page {name}: it needs a title, targets ({', '.join(TARGETS)}) and a text"
        )
    return Page(name=name, title=fields["title"], body=body.strip(), kind=fields.get("kind", ""), **lists)


def pages() -> tuple[Page, ...]:
    """Every page of the package, by name."""
    folder = resources.files(__package__) / "pages"
    files = {f.name.removesuffix(".md"): f for f in folder.iterdir() if f.name.endswith(".md")}
    return tuple(parse(name, files[name].read_text(encoding="utf-8")) for name in sorted(files))
