"""A site holds together: links, anchors, markup, sizes, the same bytes again, and what its JSON says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from site_reader import Page, find_broken_links

from warpsmith.archive import Archive
from warpsmith.errors import UsageError
from warpsmith.records import Environment
from warpsmith.site import build_site
from warpsmith.site.build import FIRST_ROWS
from warpsmith.site.kernel_pages import MAX_PAGE_BYTES
from warpsmith.site.methods import DOCUMENTS, render_document
from warpsmith.testing import chain_candidate, chain_task, scripted_result


@pytest.fixture
def site(sample: Archive, tmp_path: Path) -> Path:
    build_site([sample], tmp_path / "out")
    return tmp_path / "out"


def read_rows(site: Path) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads((site / "api/leaderboard.json").read_text())}


def test_links_and_anchors_lead_somewhere(site: Path) -> None:
    assert len(list(site.rglob("*.html"))) > 15
    assert find_broken_links(site) == []


def test_the_check_of_links_finds_broken_ones(site: Path) -> None:
    (site / "runs/bad.html").write_text(
        '<a href="none.html">a</a><a href="../index.html#none">b</a><a href="../../x">c</a>'
    )
    assert len(find_broken_links(site)) == 3


def test_pages_are_whole_labelled_and_without_inline_code(site: Path) -> None:
    for path in site.rglob("*.html"):
        page = Page(path)
        assert page.problems == [], path
        assert len(page.ids) == len(set(page.ids)), path
        assert page.tags.count("h1") == 1 or path.parent.name == "docs", path
        assert page.tags.count("caption") == page.tags.count("table") or path.parent.name == "docs", path
        assert "Content-Security-Policy" in path.read_text(), path


def test_the_leaderboard_tells_outcomes_apart(site: Path) -> None:
    rows = read_rows(site)
    assert {name: row["outcome"] for name, row in rows.items()} == {
        "chain": "win", "quarantined": "quarantined", "untouched": "nothing judged"
    }  # fmt: skip
    assert rows["chain"]["ratios"][0]["median"] == 1.9  # of the confirmation, not of the larger first look
    assert next(iter(rows)) == "chain"
    assert "1.90× [1.86, 1.94]" in Page(site / "index.html").text


def test_a_kernel_page_shows_source_parent_and_verdict(site: Path) -> None:
    kernels = {k["label"]: k for k in json.loads((site / "api/kernels.json").read_text())}
    page = Page(site / kernels["child"]["page"])
    assert "#include <cmath>" in page.text
    assert "+int more;" in page.text  # the difference from the parent
    assert "more of it" in page.text
    assert any(kernels["first"]["page"].endswith(link.removeprefix("../")) for link in page.links)
    assert "Estimate, not measured" in Page(site / kernels["screened"]["page"]).text
    assert "budget on own inputs" in Page(site / kernels["incorrect"]["page"]).text


def test_downloads_hold_the_source_and_end_in_txt(site: Path) -> None:
    downloads = [
        p for p in site.rglob("*") if p.is_file() and p.suffix not in (".html", ".json", ".js", ".css")
    ]
    assert downloads
    assert {p.suffix for p in downloads} == {
        ".txt",
        ".zip",
        ".parquet",
        ".md",
        ".svg",
    }  # no browser runs one of these
    assert {p.relative_to(site).as_posix() for p in downloads if p.suffix == ".svg"} == {"icon.svg"}
    texts = [p.read_text() for p in downloads if p.suffix == ".txt"]
    assert any("return x < 1 ? 2.0f : 3.0f; } // <b>&" in t for t in texts)


def test_json_leaves_out_paths_and_settings(site: Path) -> None:
    texts = [p.read_text() for p in site.rglob("*.json")]
    assert not [
        t for t in texts if "/home/me" in t or '"library"' in t or '"config"' in t or "export_file" in t
    ]
    assert not [p for p in site.rglob("*.html") if "/home/me" in p.read_text()]
    table = pyarrow.parquet.read_table(site / "data/kernels-1.parquet").to_pylist()
    assert len(table) == 8
    assert "run-one" in str(table)
    assert "/home/me" not in str(table)
    index = json.loads((site / "api/index.json").read_text())
    assert all((site / path).is_file() for path in index["files"].values())


def test_the_same_archive_gives_the_same_bytes(site: Path, sample: Archive, tmp_path: Path) -> None:
    build_site([sample], tmp_path / "again")
    names = sorted(str(p.relative_to(site)) for p in site.rglob("*") if p.is_file())
    assert names == sorted(
        str(p.relative_to(tmp_path / "again")) for p in (tmp_path / "again").rglob("*") if p.is_file()
    )
    assert [n for n in names if (site / n).read_bytes() != (tmp_path / "again" / n).read_bytes()] == []


def test_no_page_grows_with_its_kernel(
    open_archive: Callable[[str], Archive], environment: Environment, tmp_path: Path
) -> None:
    archive = open_archive("big.db")
    archive.begin_run("run-big", chain_task(), "cpu", 7, {}, environment)
    source = "".join(
        f"static float f{i}(float x) {{ return x * {i}.5f; }} // \u202e<\n" for i in range(20_000)
    )
    big = chain_candidate("big", source)
    archive.add_result("run-big", big, scripted_result(big, 1.5, environment.id))
    for number in range(300):
        again = scripted_result(big, "crashed", environment.id).model_copy(
            update={"seed": number, "reason": "\u202e" * 400}
        )
        archive.add_result("run-big", big, again)
    build_site([archive], tmp_path / "out")
    page = next((tmp_path / "out/kernels").glob("*.html"))
    assert page.stat().st_size <= MAX_PAGE_BYTES
    assert "more lines are in" in Page(page).text
    assert next((tmp_path / "out/kernels").glob("*.txt")).read_text() == source


def test_the_front_page_is_small_and_the_script_brings_further_rows(
    open_archive: Callable[[str], Archive], tmp_path: Path
) -> None:
    archive = open_archive("wide.db")
    for number in range(FIRST_ROWS + 30):
        archive.add_task(chain_task().model_copy(update={"name": f"task {number:03d}"}))
    counts = build_site([archive], tmp_path / "out")
    first = [tmp_path / "out" / name for name in ("index.html", "site.css", "site.js")]
    assert sum(p.stat().st_size for p in first) < 300_000
    assert Page(first[0]).tags.count("tr") == FIRST_ROWS + 1
    script = (tmp_path / "out/data/leaderboard.js").read_text()
    rows = json.loads(script.removeprefix("warpsmith.addRows(").removesuffix(");\n"))
    assert (len(rows), counts.tasks) == (30, FIRST_ROWS + 30)
    assert "task 129" in rows[-1]


def test_documents_of_a_checkout_are_pages(site: Path) -> None:
    assert len(list((site / "docs").glob("*.html"))) == len(DOCUMENTS)


def test_a_document_keeps_links_to_pages_alone() -> None:
    text = "# A *title*\n[a](b.md#c) [d](e.md) [f](https://g.org) <script>\n\n![picture](h.png)\n"
    title, body = render_document("how-to/x.md", text, frozenset({"how-to/b.md"}))
    assert title == "A title"
    assert 'href="how-to-b.html#c"' in body
    assert "e.html" not in body
    assert 'href="https://g.org"' in body
    assert "<script" not in body
    assert "<img" not in body


def test_a_site_of_before_returns_when_the_swap_fails(
    site: Path, sample: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, rename = (site / "index.html").read_bytes(), Path.rename

    def fail_into_place(self: Path, target: Path) -> Path:
        if self.name == "site":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_into_place)
    with pytest.raises(UsageError, match="No space"):
        build_site([sample], site, force=True)
    assert (site / "index.html").read_bytes() == before
    assert not [p for p in site.parent.iterdir() if p.name.startswith(".out")]
