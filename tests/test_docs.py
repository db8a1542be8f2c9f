"""The documentation holds together: every page is in the menu, every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [*PAGES, *sorted(ROOT.glob("*.md"))]
LINK = re.compile(r"(?<!`)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Ids of its headings, as MkDocs and GitHub make them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


def broken(page: Path) -> list[str]:
    """Links of a page to files or headings that are not there. Links out of the repository are not followed."""
    wrong = []
    for link in LINK.findall(prose(page)):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if re.match(r"[a-z]+:", link):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
        elif page.is_relative_to(DOCS) and not target.is_relative_to(DOCS):
            wrong.append(f"{link} (the site is built from docs/ alone)")
    return wrong


def test_every_page_is_in_the_menu_once() -> None:
    menu = re.findall(
        r"^\s+-\s.*?:\s+(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(menu) == sorted(str(page.relative_to(DOCS)) for page in PAGES)


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_the_check_finds_what_it_looks_for(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A title, here\n[a](page.md#a-title-here) [b](#none) [c](none.md)\n```\n[d](none.md)\n```\n"
    )
    assert broken(page) == ["#none", "none.md"]
