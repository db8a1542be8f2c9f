"""The site in a real browser, from files and from a static server: every kind of page, what its script does, and what people need."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from chromium import Watch, check_accessibility, expect, find_shots_folder, serve_folder
from site_sample import fill_sample

from warpsmith.archive import Archive
from warpsmith.records import Environment
from warpsmith.site import build_site
from warpsmith.site.findings import read_finding
from warpsmith.site.suite_pages import read_suite

WIDTHS_PX = {375: 812, 1024: 768, 1920: 1080}  # and heights
THEMES = ("light", "dark")
MAX_SHIFT = 0.1  # cumulative layout shift
CLAIM = {
    "task": "1/43",
    "claimed": 4.2,
    "verdict": "incorrect",
    "label": "none",
    "reason": "budget (main)",
    "hardware": "a GPU",
    "torch": "2.11",
}
ROW = {
    "task": "level1/1",
    "status": "win",
    "label": "panels",
    "baseline": "eager",
    "speedup": [2.0, 1.9, 2.1],
    "machine": "a CPU",
    "limit_share": 0.5,
}
FOCUS = "((e) => `${e.tagName} ${e.closest('#board') ? 'in a row' : e.name || ''}`)(document.activeElement)"
SHIFTS = """() => { globalThis.shift = 0;
  new PerformanceObserver((list) => { for (const e of list.getEntries()) globalThis.shift += e.hadRecentInput ? 0 : e.value; })
    .observe({ type: "layout-shift", buffered: true }); }"""


@pytest.fixture(scope="module")
def site(
    small_archive: Archive, browser: Any, environment: Environment, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("site")
    with closing(fill_sample(Archive(folder / "sample.db"), environment)) as sample:
        finding, suite = read_finding(CLAIM), read_suite("cpu/suite", [ROW])
        assert finding is not None
        assert suite is not None
        build_site([small_archive, sample], folder / "out", findings=[finding], suites=[suite])
    return folder / "out"


@pytest.fixture(scope="module", params=["file", "http"])
def address(site: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The site's address: of its folder, or of a static server."""
    if request.param == "file":
        yield site.as_uri() + "/"
    else:
        with serve_folder(site) as address:
            yield address


@pytest.fixture
def open_page(browser: Any, address: str) -> Iterator[Callable[..., Any]]:
    """Open a page of the site by its path. At the end no page may have left the site, or said a word to the console."""
    contexts, watches = [], []

    def open_it(path: str, **settings: Any) -> Any:
        contexts.append(browser.new_context(**{"viewport": {"width": 1024, "height": 768}, **settings}))
        page = contexts[-1].new_page()
        watches.append(Watch(page, address))
        page.goto(address + path)
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert [p for w in watches for p in w.problems] == []


def read_api(site: Path, name: str) -> Any:
    return json.loads((site / f"api/{name}.json").read_text())


def find_kinds(site: Path) -> dict[str, str]:
    """One page of each kind."""
    kernels = {
        k["outcome"]: k["page"]
        for k in read_api(site, "kernels")
        if k["outcome"] in ("win", "failed", "screened")
    }
    names = ("index", "map", "found", "suites", "methods", "search", "json")
    kinds = {name: f"{name}.html" for name in names} | {
        f"kernel-{outcome.replace(' ', '-')}": page for outcome, page in kernels.items()
    }
    tasks = {t["name"]: t["page"] for t in read_api(site, "tasks")}
    kinds |= {
        "task": tasks["99_Matmul_GELU_Softmax"],
        "task-untouched": tasks["untouched"],
        "run": read_api(site, "runs")[0]["page"],
    }
    kinds |= {"suite": "suites/cpu-suite.html"}
    return kinds | {"document": "docs/threat-model.html"}


@pytest.mark.parametrize("theme", THEMES)
def test_every_kind_of_page_is_sound_at_every_width(site: Path, browser: Any, theme: str) -> None:
    shots, problems = find_shots_folder("site"), []
    address = site.as_uri() + "/"
    with closing(browser.new_context(color_scheme=theme)) as context:
        context.add_init_script(f"({SHIFTS})()")
        page = context.new_page()
        watch = Watch(page, address)
        for kind, path in find_kinds(site).items():
            page.set_viewport_size({"width": 375, "height": WIDTHS_PX[375]})
            page.goto(address + path)
            page.wait_for_timeout(60)  # what scripts bring has come
            problems += [f"{kind}: {text}" for text in check_accessibility(page)]
            shift = page.evaluate("globalThis.shift")
            problems += [f"{kind}: layout shifts by {shift}"] if shift >= MAX_SHIFT else []
            for width, height in WIDTHS_PX.items():
                page.set_viewport_size({"width": width, "height": height})
                beyond = page.evaluate(
                    "document.documentElement.scrollWidth - document.documentElement.clientWidth"
                )
                problems += [f"{kind}: {beyond} px wider than a screen of {width} px"] if beyond > 0 else []
                page.screenshot(path=shots / f"{kind}-{width}-{theme}.png")
    assert "\n".join(dict.fromkeys(problems + watch.problems)) == ""


def test_filters_narrow_the_rows_and_stay_in_the_address(open_page: Callable[..., Any]) -> None:
    page = open_page("index.html")
    total = page.locator("#board tbody tr").count()
    assert page.locator("#count").inner_text() == f"{total} of {total} rows"
    page.locator("select[name=outcome]").select_option("quarantined")
    assert page.locator("#board tbody tr:visible").all_inner_texts()[0].startswith("quarantined")
    assert page.locator("#count").inner_text() == f"1 of {total} rows"
    assert page.url.endswith("?outcome=quarantined")
    page.get_by_role("link", name="quarantined", exact=True).first.click()
    page.go_back()
    assert page.locator("#board tbody tr:visible").count() == 1
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#count")).to_have_text(f"{total} of {total} rows")
    page.locator("input[name=q]").fill("softmax nothing-of-the-kind")
    assert page.locator("#board tbody tr:visible").count() == 0


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("?level=level+2&q=gelu", "99_Matmul_GELU_Softmax"),
        ("?dtype=float32&family=norm", "88_Gemm_GroupNorm_Swish_Multiply_Swish"),
        ("?label=kernel&machine=NVIDIA+H200%2C+4+threads&q=softmax", "99_Matmul_GELU_Softmax"),
    ],
)
def test_a_link_sets_the_filters(open_page: Callable[..., Any], query: str, name: str) -> None:
    rows = open_page(f"index.html{query}").locator("#board tbody tr:visible th a")
    assert rows.all_inner_texts() == [name]


def test_a_column_sorts_by_its_numbers(open_page: Callable[..., Any]) -> None:
    page = open_page("index.html")
    button = page.get_by_role("button", name="over the fastest baseline")
    for state in ("descending", "ascending"):
        button.press("Enter")
        keys = page.locator("#board tbody td:nth-child(3)").evaluate_all(
            "(cells) => cells.map((c) => Number(c.dataset.sort))"
        )
        assert keys == sorted(keys, reverse=state == "descending")
        assert page.locator("#board th[aria-sort]").get_attribute("aria-sort") == state


def test_the_search_finds_titles_and_words_of_sources(open_page: Callable[..., Any], site: Path) -> None:
    page = open_page("search.html?q=softmax")
    page.wait_for_selector("#results a")
    assert page.locator("#results a").first.inner_text() == "99_Matmul_GELU_Softmax"
    page.locator("input[name=q]").fill("cmath more")
    expect(page.locator("#results a")).to_have_count(1)
    page.locator("#results a").click()
    page.wait_for_url("**/kernels/*.html")
    assert "int more;" in page.locator("pre").first.inner_text() or "child" in page.locator("h1").inner_text()
    page.go_back()
    page.wait_for_selector("#results a")
    assert page.locator("input[name=q]").input_value() == "cmath more"


def test_the_map_is_walked_by_keys_and_opens_a_kernel(open_page: Callable[..., Any], site: Path) -> None:
    page = open_page("map.html?by=outcome")
    total = len(read_api(site, "kernels"))
    expect(page.locator("#count")).to_have_text(f"{total} of {total} kernels")
    assert page.locator("select[name=by]").input_value() == "outcome"
    assert "win" in page.locator("#legend").inner_text()
    page.locator("#map").focus()
    for key in ("ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
    picked = page.locator("#picked").inner_text()
    assert "Open its page" in picked
    assert page.locator("#picked a").get_attribute("href") in {k["page"] for k in read_api(site, "kernels")}
    page.keyboard.press("Enter")
    page.wait_for_url("**/kernels/*.html")


def test_the_map_opens_the_kernel_that_is_clicked(open_page: Callable[..., Any], site: Path) -> None:
    page = open_page("map.html")
    page.wait_for_selector("#legend li")
    point = read_api(site, "map")[0]
    box = page.locator("#map").bounding_box()
    x, y = (14 + point[axis] * (size - 28) for axis, size in (("x", 1200), ("y", 750)))
    position = {"x": x * box["width"] / 1200, "y": y * box["height"] / 750}
    page.locator("#map").click(
        position=position
    )  # scrolls there: where a point lies depends on the processor's rounding
    page.wait_for_url("**/kernels/*.html")


def test_downloads_arrive_whole(
    open_page: Callable[..., Any], site: Path, tmp_path: Path, address: str
) -> None:
    if address.startswith("file:"):
        pytest.skip("Chromium opens files of the machine instead of downloading them")
    kernels = [k for k in read_api(site, "kernels") if k["target"] == "cuda" and k["outcome"] == "win"]
    page = open_page(kernels[0]["page"])
    page.set_default_timeout(120_000)  # Chromium's own, on a busy machine; what is tested is what arrives
    with page.expect_download() as event:
        page.get_by_role("link", name="Package of sources").click()
    event.value.save_as(tmp_path / "package.zip")
    with zipfile.ZipFile(tmp_path / "package.zip") as package:
        assert {"README.md", "reference.py", "unit0/task.h"} <= set(package.namelist())
    with page.expect_download() as event:
        page.get_by_role("link", name="KernelBench file").click()
    event.value.save_as(tmp_path / "solution.py")
    compile((tmp_path / "solution.py").read_text(), "solution.py", "exec")
    assert "class ModelNew" in (tmp_path / "solution.py").read_text()


def test_the_theme_is_remembered(open_page: Callable[..., Any], address: str) -> None:
    page = open_page("index.html", color_scheme="light")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Dark or light").click()
    after = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert before != after
    page.goto(address + "methods.html")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == after


def test_the_keyboard_reaches_content_filters_and_rows(open_page: Callable[..., Any]) -> None:
    page = open_page("index.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    tags = []
    for _ in range(40):
        page.keyboard.press("Tab")
        tags.append(page.evaluate(FOCUS))
    assert {"INPUT q", "SELECT outcome", "BUTTON in a row", "A in a row"} <= set(tags)


def test_pages_read_well_without_scripts(open_page: Callable[..., Any], site: Path) -> None:
    page = open_page("index.html", java_script_enabled=False)
    assert page.locator("#board tbody tr").count() == len(read_api(site, "leaderboard"))
    assert not page.locator("#filters").is_visible()
    page.goto(page.url.replace("index.html", "map.html"))
    assert not page.locator("#map").is_visible()
    assert page.locator("table").is_visible()


def test_no_link_is_broken_on_a_server(site: Path, browser: Any) -> None:
    with serve_folder(site) as address, closing(browser.new_context()) as context:
        waiting, seen, broken = ["index.html"], {"index.html"}, []
        while waiting:
            path = waiting.pop()
            answer = context.request.get(address + path)
            broken += [path] if answer.status != 200 else []
            if not path.endswith(".html"):
                continue
            for link in _list_links(answer.text()):
                target = _resolve(path, link)
                if target is not None and target not in seen:
                    seen.add(target)
                    waiting.append(target)
    assert broken == []
    assert len(seen) > 40


def _list_links(text: str) -> list[str]:
    from html.parser import HTMLParser

    links: list[str] = []

    class Links(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            links.extend(v for k, v in attrs if k in ("href", "src") and v)

    Links().feed(text)
    return links


def _resolve(path: str, link: str) -> str | None:
    from posixpath import dirname, join, normpath
    from urllib.parse import urlsplit

    parts = urlsplit(link)
    if parts.scheme or not parts.path:
        return None
    return normpath(join(dirname(path), parts.path))
