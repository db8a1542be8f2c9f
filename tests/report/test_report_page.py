"""The report's page: its parts and their order, what it may hold, how large it gets, and that nothing of an archive runs in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from page_reader import PageReader, find_faults, read_contents
from sample import LIMIT, RUN, RunMaker, failed_run, make_task, winning_run
from suite_sample import SUITE, summary

from warpsmith import records as r
from warpsmith.archive import Archive
from warpsmith.report import build_report, render
from warpsmith.report.compare import compare_sides
from warpsmith.report.comparison_page import comparison_page
from warpsmith.report.drawings import draw_times
from warpsmith.report.html import MAX_FILE_BYTES, render_html
from warpsmith.report.pages import write
from warpsmith.report.sides import Side
from warpsmith.report.suite import suite_page
from warpsmith.report.suite_charts import FEW, find_end

EVIL = "</style></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'><svg/onload=alert(1)>{{ 7*7 }}</pre></td>\u202e\u2028"


@pytest.fixture(scope="module")
def won(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    return winning_run(tmp_path_factory.mktemp("won") / "a.db")


@pytest.fixture(scope="module")
def page(won: Archive) -> str:
    return render(won, RUN, "html")


def test_a_page_is_sound_and_its_contents_name_every_section(page: str) -> None:
    assert find_faults(page) == []
    assert read_contents(page) == [title for _, title in PageReader(page).headings]
    assert read_contents(page) == [
        "Speed", "Use it", "Winning source", "What it changes", "Limits", "Search", "Lineage", "How the winner came about",
        "What was tried, why, and what it taught", "Correctness", "Environment", "Commands",
    ]  # fmt: skip


def test_a_page_is_small(page: str) -> None:
    assert len(page.encode()) < 100_000  # with Plotly's script inside it had 4.9 MB


def test_times_stand_with_intervals_the_best_baseline_and_the_limit(won: Archive) -> None:
    drawn = str(draw_times(build_report(won)))
    rows = re.findall(r"<span class=name>(.*?)</span>.*?<span class=value>(.*?)</span>", drawn)
    assert rows[1] == ("torch.compile, the best baseline", "1.89 ms [1.87 ms, 1.91 ms]")
    assert rows[3][0] == "warpsmith: two-pass, streamed"
    assert "limit of this machine: 1.31 ms" in drawn


def test_the_winner_is_compared_with_its_parent_in_html_and_markdown(won: Archive, page: str) -> None:
    change = build_report(won).change
    assert change is not None
    assert (change.number, change.label) == (11, "two-pass, streamed")
    assert {"-// tunable: UNROLL = 4 {1, 2, 4, 8}", "+// tunable: UNROLL = 8 {1, 2, 4, 8}"} <= set(
        change.lines
    )
    assert "<i class=add>+// tunable: UNROLL = 8 {1, 2, 4, 8}</i>" in page
    assert "```diff\n" in render(won, RUN, "markdown")


def test_it_shows_what_of_the_reference_it_replaces(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "a.db")
    task = make_task()
    nodes = tuple(
        n.model_copy(update={"where": f"softmax.py:{i} in forward"})
        for i, n in enumerate(task.graph.nodes, 2)
    )
    graph = task.graph.model_copy(update={"nodes": nodes})
    text = "import torch\ny = softmax(x)\nreturn 2 * y\n"
    task = task.model_copy(
        update={
            "variants": (task.main.model_copy(update={"graph": graph}),),
            "source": task.source.model_copy(update={"text": text}),
        }
    )
    run = RunMaker(archive, task)
    run.timed(run.candidate("a"), 1500)
    (replaced,) = build_report(archive).replaced
    assert replaced.lines == (2, 3)
    assert replaced.operations[1] == "scale = aten.mul.Tensor(softmax, 2.0)"
    marked = re.findall(r"<mark>(.*?)</mark>", render(archive, RUN, "html"))
    assert [re.sub("<.*?>", "", line) for line in marked] == ["y = softmax(x)", "return 2 * y"]


def test_only_a_win_of_this_machine_says_how_to_use_it(won: Archive, tmp_path: Path) -> None:
    uses = build_report(won).uses
    assert [u.shell[0].split(" && ")[0] for u in uses] == [
        f"warpsmith export {RUN} --as package --out softmax_fast",
        f"warpsmith export {RUN} --as kernelbench --out softmax_new.py",
        f"warpsmith export {RUN} --as source --out softmax_source",
    ]
    for format in ("text", "markdown"):
        assert "from softmax_fast import optimized" in render(won, RUN, format)
    lost = failed_run(tmp_path / "lost.db")
    assert build_report(lost).uses == ()
    assert "Use it" not in read_contents(render(lost, None, "html"))


def test_the_profile_of_the_search_stands_for_a_confirmed_winner(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "a.db")
    run = RunMaker(archive)
    run.note()
    best = run.candidate("a")
    region = best.units[0].region
    profile = r.Profile(
        regions=(
            r.RegionProfile(
                region=region.id, seconds=0.0014, least_bytes=LIMIT.least_bytes, flops=1, limit_share=0.5, bottleneck="memory", technique="a",
                threads=2, balance=0.6, register_bits=512, vector_bits=256, vector_share=0.9,
            ),
        ),
        notes=("no counters",),
    )  # fmt: skip
    run.timed(best, 1500, profile=profile)
    run.timed(best, 1510, confirmed=True)
    run.finish(best, 1510)
    report = build_report(archive)
    assert report.profile[0].nodes == region.nodes
    assert any("share the work unevenly" in text for text in report.profile[0].findings)
    for format in ("text", "markdown", "html"):
        shown = render(archive, RUN, format)
        assert "256 bits" in shown
        assert "unevenly" in shown
    assert "no counters" in render(archive, RUN, "html")


def test_a_run_of_many_long_candidates_stays_below_its_limit_and_says_what_is_left_out(won: Archive) -> None:
    report, long = build_report(won), "<&> " * 300
    source = report.sources[0].model_copy(update={"source": "if (a < b && c > d) return; // <&>\n" * 30_000})
    attempts = [a.model_copy(update={"label": long, "detail": long}) for a in report.attempts]
    steps = [s.model_copy(update={"title": long, "evidence": (long,) * 20}) for s in report.chain]
    nodes = [
        n.model_copy(update={"candidate_id": f"{k} {n.candidate_id}"})
        for k in range(40)
        for n in report.lineage
    ]
    grown = {
        "attempts": attempts * 20,
        "chain": steps * 20,
        "lineage": nodes,
        "sources": [source] * 70,
        "reference": "x = y < z\n" * 90_000,
    }
    page = render_html(
        report.model_copy(update={k: v if isinstance(v, str) else tuple(v) for k, v in grown.items()})
    )
    assert len(page.encode()) <= MAX_FILE_BYTES == 800_000
    assert find_faults(page) == []
    assert re.search(r"\d+ of 300 rows\. All: ", page)
    assert "more lines" in page
    assert "later candidates are left out" in page


def test_hostile_text_is_text(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "a.db")
    task = make_task()
    source = r.TaskSource(kind="kernelbench", path=EVIL, text=f'"""{EVIL}"""\n')
    run = RunMaker(archive, task.model_copy(update={"name": EVIL, "source": source}))
    run.note()
    parent = run.timed(run.candidate(EVIL, reason=EVIL, evidence=(EVIL,)), 1700)
    best = run.timed(run.candidate(f"{EVIL}2", parents=(parent,), operator="edit", reason=EVIL), 1500)
    run.failed(run.candidate("b"), "incorrect", EVIL)
    run.timed(best, 1510, confirmed=True)
    run.finish(best, 1510, reason=EVIL)
    page = render(archive, RUN, "html")
    assert find_faults(page) == []
    shown = PageReader(page).text
    assert "<script>alert(1)</script>" in shown
    assert "{{ 7*7 }}" in shown
    assert "[U+202E][U+2028]" in shown
    assert not {"\u202e", "\u2028"} & set(page)


def test_hostile_names_are_text_on_pages_of_suites_and_comparisons() -> None:
    runs = [*SUITE, summary(EVIL, 1.5, kind=EVIL, reason=EVIL, hardware=EVIL)]
    for shown in (
        suite_page(runs, EVIL),
        comparison_page(compare_sides(Side(EVIL, tuple(runs)), Side(EVIL, tuple(runs)))),
    ):
        page = write(shown, "html")
        assert find_faults(page) == []
        assert "<script>alert(1)</script>" in PageReader(page).text


def test_a_suite_page_has_charts_of_ends_speedups_and_shares() -> None:
    page = write(suite_page(SUITE, "sample"), "html")
    assert find_faults(page) == []
    assert read_contents(page)[:3] == ["Outcomes", "Speedups by task", "Shares of the limit"]
    assert [find_end(s) for s in SUITE] == ["win", "tie", "loss", "failed"]
    assert 'aria-label="1 win; 1 tie; 1 loss; 1 failed"' in page
    rows = re.findall(r"<span class=name>(\w)</span>.*?<span class=value>(.*?)</span>", page)
    assert rows[:3] == [("a", "2.00× [1.90, 2.10]"), ("b", "1.02× [0.99, 1.07]"), ("c", "0.70× [0.66, 0.73]")]


def test_many_tasks_are_one_chart_with_their_names_folded_below() -> None:
    runs = [summary(f"task {n}", 1.0 + n / 50) for n in range(FEW + 1)]
    page = write(suite_page(runs), "html")
    assert f"<summary>Each of {FEW + 1} tasks by name</summary>" in page
    assert page.count("<svg class=plotted") == 1


def test_a_comparison_page_has_a_chart_of_who_is_surely_faster() -> None:
    slower = [summary("a", 1.0), summary("b", 1.02, low=0.99), summary("c", 0.7), summary("d|e", None)]
    page = write(
        comparison_page(compare_sides(Side("before", tuple(slower)), Side("after", tuple(SUITE)))), "html"
    )
    assert find_faults(page) == []
    assert 'aria-label="1 B surely faster; 2 not sure; 1 not verified on a side"' in page
    assert read_contents(page)[:2] == ["Who is faster", "B over A by task"]
