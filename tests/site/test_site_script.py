"""The site's script, run against a made-up document where Node is, and the contrast of the two themes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib import resources

import pytest

from warpsmith.pages.rendering import read_style

STATIC = resources.files("warpsmith.site").joinpath("static")
DOCUMENT = """
const empty = () => ({ elements: { q: { value: "", name: "q" } }, dataset: {}, hidden: true, addEventListener() {}, append() {},
  replaceChildren() {}, querySelectorAll: () => [], setAttribute() {}, textContent: "", insertAdjacentHTML(_, html) { globalThis.inserted = html; } });
const parts = new Map();
globalThis.document = { head: { append() {} }, documentElement: empty(), createElement: empty, querySelectorAll: () => [],
  querySelector: (s) => { if (!parts.has(s)) parts.set(s, empty()); return parts.get(s); } };
globalThis.location = { search: SEARCH, pathname: "/", hash: "" };
"""


def run_script(more: str, search: str = "", before: str = "") -> str:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node")
    program = (
        DOCUMENT.replace("SEARCH", json.dumps(search))
        + before
        + STATIC.joinpath("site.js").read_text()
        + STATIC.joinpath("search.js").read_text()
        + more
    )
    done = subprocess.run([node, "-e", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_search_wants_all_words_and_ranks_titles_first() -> None:
    entries = [
        ["kernel", "kernels/a.html", "tiled", "softmax cpu"],
        ["task", "tasks/b.html", "Softmax", "level1 exp"],
        ["kernel", "kernels/c.html", "softmax rows", "cuda"],
    ]
    script = f"warpsmith.addEntries({json.dumps(entries)});"
    script += 'console.log(JSON.stringify(["softmax", "SOFTMAX cpu", "none", " "].map((q) => warpsmith.search(q).map((e) => e[1]))));'
    assert json.loads(run_script(script)) == [
        ["tasks/b.html", "kernels/c.html", "kernels/a.html"], ["kernels/a.html"], [], []
    ]  # fmt: skip


def test_a_links_query_fills_the_search_and_further_rows_are_added() -> None:
    script = 'warpsmith.addRows(["<tr>1</tr>", "<tr>2</tr>"]);'
    script += 'console.log(document.querySelector("#search").elements.q.value, inserted);'
    assert run_script(script, "?q=soft").split() == ["soft", "<tr>1</tr><tr>2</tr>"]


def test_a_column_sorts_by_its_keys_and_filters_hide_rows() -> None:
    script = """
const cell = (text, sort) => ({ textContent: text, dataset: sort ? { sort } : {} });
const row = (name, low, outcome) => ({ cells: [cell(name), cell("", low)], dataset: { outcome }, textContent: name, hidden: false });
let rows = [row("softmax", "1.2", "win"), row("relu", "10.5", "win"), row("softmin", "0", "failed")];
const clicks = [], states = {};
const heads = ["task", "speedup"].map((textContent) => ({ textContent, replaceChildren() {}, removeAttribute(n) { delete states[n + textContent]; },
  setAttribute(n, v) { states[n + textContent] = v; }, getAttribute: (n) => states[n + textContent] ?? null }));
const body = { append: (...sorted) => { rows = sorted; } };
const table = { querySelector: () => body, querySelectorAll: (s) => (s === "thead th" ? heads : rows) };
document.createElement = () => ({ addEventListener: (_, f) => clicks.push(f) });
document.querySelectorAll = (s) => (s === "table" ? [table] : rows);
const form = document.querySelector("#filters");
form.elements.q = { value: "", name: "q" };
form.querySelectorAll = () => [select];
const select = { name: "outcome", value: "", options: [{ value: "" }, { value: "win" }] };
"""
    more = """
const shown = () => rows.filter((r) => !r.hidden).map((r) => r.textContent).join();
clicks[1](); const down = shown(); clicks[1](); console.log(JSON.stringify([down, shown(), document.querySelector("#count").textContent]));
"""
    assert json.loads(run_script(more, "?outcome=win&q=", script)) == [
        "relu,softmax",
        "softmax,relu",
        "2 of 3 rows",
    ]
    assert json.loads(run_script(more, "?outcome=bogus&q=soft", script))[1:] == [
        "softmin,softmax",
        "2 of 3 rows",
    ]


def test_a_long_board_is_drawn_from_its_top_and_the_rest_while_nothing_else_is_to_be_done() -> None:
    """What a browser lays out at once is as long as a screen. Whoever sorts or filters again is not shown rows of before."""
    before = """
const cell = (text) => ({ textContent: text, dataset: {} });
const all = [...Array(100).keys()].map((i) => ({ cells: [cell(`${i}`)], dataset: { outcome: i % 2 ? "win" : "" }, textContent: `task ${i}`, hidden: false }));
let placed = [...all];
const idle = [], clicks = [];
globalThis.requestIdleCallback = (f) => idle.push(f);
const head = { textContent: "task", replaceChildren() {}, removeAttribute() {}, setAttribute(n, v) { this.state = v; }, getAttribute() { return this.state; } };
const table = { id: "board", querySelectorAll: () => [head] };
document.createElement = () => ({ addEventListener: (_, f) => clicks.push(f) });
document.querySelectorAll = (s) => (s === "table" ? [table] : s === "#board tbody tr" ? placed : []);
const body = document.querySelector("#board tbody");
body.replaceChildren = (...rows) => { placed = rows; };
body.append = (...rows) => { placed.push(...rows); };
const form = document.querySelector("#filters");
const select = { name: "outcome", value: "", options: [{ value: "" }, { value: "win" }] };
form.elements.q = { value: "", name: "q" };
form.querySelectorAll = () => [select];
form.addEventListener = (kind, f) => { if (kind === "input") form.update = f; };
globalThis.history = { replaceState() {} };
"""
    more = """
const rest = () => { while (idle.length) idle.shift()(); };
const state = () => [placed.length, placed[0].textContent, document.querySelector("#count").textContent];
const seen = [];
clicks[0](); seen.push(state());
rest(); seen.push(state());
select.value = "win"; form.update(); seen.push(state());
select.value = ""; form.update(); clicks[0](); rest(); seen.push(state());
console.log(JSON.stringify([seen, placed.every((row, i) => row === all[i])]));
"""
    seen, in_order = json.loads(run_script(more, "", before))
    assert seen == [
        [40, "task 99", "100 of 100 rows"], [100, "task 99", "100 of 100 rows"], [40, "task 99", "50 of 100 rows"],
        [100, "task 0", "100 of 100 rows"],
    ]  # fmt: skip
    assert in_order


def read_themes() -> list[dict[str, str]]:
    css = read_style("pages")
    blocks = re.findall(r":root[^{]*\{([^}]*)\}", css)
    assert len(blocks) == 3
    return [dict(re.findall(r"--(\w+): (#\w+)", block)) for block in blocks]


def find_luminance(color: str) -> float:
    digits = color[1:] if len(color) == 7 else "".join(2 * c for c in color[1:])
    channels = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("theme", range(3))
def test_text_has_contrast(theme: int) -> None:
    colors = read_themes()[theme]
    pairs = [(ink, ground) for ink in ("ink", "soft", "accent") for ground in ("bg", "card", "code")]
    pairs += [(ink, "code") for ink in ("kw", "str", "com", "num")]
    pairs += [(ink, f"{ink}bg") for ink in ("good", "bad", "warn")]
    for pair in pairs:
        dark, light = sorted(find_luminance(colors[name]) for name in pair)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, pair


def test_both_dark_themes_are_the_same() -> None:
    assert read_themes()[1] == read_themes()[2]
