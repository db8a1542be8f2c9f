"""Reports in Chromium: they open from a file without a network, fit a phone, cut no label, run nothing, and axe finds nothing serious."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import check_accessibility, launch_browser
from sample import RUN, RunMaker, failed_run, winning_run
from suite_sample import SUITE, summary

from warpsmith.archive import Archive
from warpsmith.pages.short_form import render_summary
from warpsmith.report import render
from warpsmith.report.compare import compare_sides
from warpsmith.report.comparison_page import comparison_page
from warpsmith.report.pages import write
from warpsmith.report.sides import Side
from warpsmith.report.suite import suite_page

EVIL = "</style><script>alert(1)</script><img src=x onerror=alert(1)><svg/onload=alert(1)>"
NAMES = ("won", "lost", "busy", "hostile", "suite", "many", "comparison")
CLIPPED = """() => [...document.querySelectorAll('figure text, figure .name, figure .value, figcaption, .keys, .tree li')]
  .filter((e) => e.getClientRects().length).map((e) => [e.textContent, e.getBoundingClientRect()])
  .filter(([, box]) => box.left < 0 || box.right > document.documentElement.clientWidth).map(([text]) => text)"""


def make_hostile(path: Path) -> Archive:
    archive = Archive(path)
    run = RunMaker(archive)
    run.note()
    parent = run.timed(run.candidate(EVIL, reason=EVIL), 1700)
    best = run.timed(
        run.candidate(f"{EVIL}{'long' * 200}", parents=(parent,), operator="edit", reason=EVIL), 1500
    )
    run.failed(run.candidate("b"), "incorrect", EVIL)
    run.timed(best, 1510, confirmed=True)
    run.finish(best, 1510, reason=EVIL)
    return archive


def make_busy(path: Path) -> Archive:
    archive = Archive(path)
    run = RunMaker(archive)
    run.note()
    best = run.timed(run.candidate("a"), 1500, busy="it waited")
    run.finish(best, 1500, "too-busy", "the machine was too busy")
    return archive


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a page of each kind."""
    out = tmp_path_factory.mktemp("pages")
    archives = {
        "won": winning_run(out / "won.db"), "lost": failed_run(out / "lost.db"), "busy": make_busy(out / "busy.db"),
        "hostile": make_hostile(out / "hostile.db"),
    }  # fmt: skip
    many = [summary(f"level1/{n} a task with a name of some length", 0.9 + n / 60) for n in range(60)]
    sides = Side("before", tuple(SUITE)), Side("after", (*SUITE, summary("new", 2.0)))
    pages = {name: render(archive, RUN, "html") for name, archive in archives.items()}
    pages["suite"], pages["many"] = (write(suite_page(runs, "sample"), "html") for runs in (SUITE, many))
    pages["comparison"] = write(comparison_page(compare_sides(*sides)), "html")
    for name, text in pages.items():
        (out / f"{name}.html").write_text(text, encoding="utf-8")
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launch_browser() as opened:
        yield opened


@pytest.fixture
def open_page(browser: Any) -> Iterator[Any]:
    """Open a file in a window of a width and a theme. Messages of the console and dialogs are collected in `page.heard`."""
    contexts = []

    def open_file(path: Path, width: int, theme: str = "light") -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, offline=True
        )
        contexts.append(context)
        page = context.new_page()
        page.heard = []
        for event in ("console", "pageerror", "dialog", "requestfailed"):
            page.on(event, lambda happened: page.heard.append(str(happened)))
        page.goto(path.as_uri())
        return page

    yield open_file
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_page_opens_offline_fits_and_cuts_no_label(folder: Path, open_page: Any, name: str) -> None:
    for width in (375, 1280):
        page = open_page(folder / f"{name}.html", width)
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        assert page.heard == []
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(CLIPPED) == []
        assert page.evaluate("document.scripts.length") == 0


@pytest.mark.parametrize(
    ("name", "width", "theme"), [("won", 1280, "light"), ("busy", 375, "dark"), ("suite", 1280, "dark")]
)
def test_axe_finds_nothing_serious(folder: Path, open_page: Any, name: str, width: int, theme: str) -> None:
    page = open_page(folder / f"{name}.html", width, theme)
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert check_accessibility(page) == []


def test_the_contents_lead_to_their_sections(folder: Path, open_page: Any) -> None:
    page = open_page(folder / "won.html", 375)
    page.get_by_role("navigation", name="Contents").get_by_role("link", name="Lineage").click()
    assert page.url.endswith("#lineage")
    assert page.evaluate("document.getElementById('lineage').getBoundingClientRect().top") < 200


def test_the_themes_differ_and_paper_shows_everything(folder: Path, open_page: Any) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = (open_page(folder / "won.html", 1280, theme) for theme in ("light", "dark"))
    assert light.evaluate(ground) != dark.evaluate(ground)
    for page in (light, dark):
        page.emulate_media(media="print")
    assert dark.evaluate(ground) == light.evaluate(ground), "paper is light"
    hidden = light.evaluate(
        "[...document.querySelectorAll('pre')].filter((p) => p.scrollHeight > p.clientHeight + 2).length"
    )
    assert hidden == 0
    assert not light.get_by_role("navigation", name="Contents").is_visible()


def test_the_short_form_keeps_to_itself(open_page: Any, tmp_path: Path) -> None:
    fragment = render_summary(SUITE[0])
    (tmp_path / "notebook.html").write_text(
        f"<!doctype html><html><meta charset=utf-8><body><figure id=other><svg><line class=one></line></svg></figure>{fragment}</body></html>",
        encoding="utf-8",
    )
    page = open_page(tmp_path / "notebook.html", 375)
    assert page.heard == []
    inside, outside = (
        page.evaluate(f"getComputedStyle(document.querySelector('{selector} line.one')).strokeDasharray") for selector in (".warpsmith", "#other")
    )  # fmt: skip
    assert (inside, outside) == ("4px, 3px", "none")
    assert page.evaluate("document.documentElement.scrollWidth") == 375
