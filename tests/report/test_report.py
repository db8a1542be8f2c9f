"""A report tells the whole story in every format, never a bare speedup, and never anything it was not
given as text.
"""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console
from sample import RUN, RunMaker, failed_run, winning_run

from warpsmith.archive import Archive
from warpsmith.errors import ArchiveError, UsageError
from warpsmith.llm.chat import CUT
from warpsmith.records import Exchange
from warpsmith.report import FORMATS, Report, build_report, render
from warpsmith.report.commands import commands
from warpsmith.report.drawings import describe_claimed, list_points
from warpsmith.report.exchanges import rows
from warpsmith.report.text import renderable

CLAIM = (
    "1.24× torch.compile (95% interval 1.20 to 1.27) on Example CPU 9000 @ 3.1 GHz, 2 threads, "
    "at 86% of the machine's limit"
)


@pytest.fixture(scope="module")
def won(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    return winning_run(tmp_path_factory.mktemp("won") / "a.db")


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    return failed_run(tmp_path_factory.mktemp("lost") / "a.db")


def plain(text: str, format: str) -> str:
    """The format's text without its line breaks and escapes."""
    if format == "html":
        collector = Words()
        collector.feed(text)
        text = " ".join(collector.words)
    return (
        " ".join(text.replace("\\", "").split())
        if format != "json"
        else json.dumps(json.loads(text), ensure_ascii=False)
    )


class Words(HTMLParser):
    """Collects what a browser would show, and every address a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.loads: list[str] = []
        self.scripts = 0
        self.skip = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.skip = tag if tag in ("script", "style") else self.skip
        self.loads += [v or "" for k, v in attrs if k in ("src", "href", "srcset", "data", "action")]

    def handle_endtag(self, tag: str) -> None:
        self.skip = "" if tag == self.skip else self.skip

    def handle_data(self, data: str) -> None:
        if not self.skip:
            self.words.append(data)


@pytest.mark.parametrize("format", FORMATS)
def test_a_speedup_carries_baseline_hardware_interval_and_limit(won, format):
    assert CLAIM in plain(render(won, RUN, format), format)


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_tells_the_same_story(won, format):
    text = plain(render(won, None, format), format)
    for fact in (
        "PyTorch eager" if format != "json" else '"eager"', "build-failed",
        "'ws::expf' is not a member of 'ws'", "SIGSEGV", "two-pass, streamed", "crossover",
        "UNROLL", "heavy-tailed",
        "g++ 12.2.0", "20231",
        "it reaches 59% of the measured 25.6 GB/s",
        "warpsmith optimize examples/softmax.py --target cpu --seed 20231",
        "no gain in 3 rounds", "landlock4+seccomp+rlimits" if format != "markdown" else "landlock4",
    ):  # fmt: skip
        assert fact in text, fact


@pytest.mark.parametrize("format", FORMATS)
def test_a_run_without_a_valid_result_says_so_and_why(lost, format):
    text = plain(render(lost, None, format), format)
    assert "no valid result" in text
    assert "nothing valid was produced: error 7.2 times the budget" in text
    assert "1.0×" not in text.replace("1.00×", "")


def test_the_page_loads_nothing_runs_nothing_and_draws_its_charts(won):
    page = render(won, RUN, "html")
    words = Words()
    words.feed(page)
    assert [address for address in words.loads if not address.startswith("#")] == []
    assert words.scripts == 0
    assert page.count("<svg class=plotted") >= 2
    assert "default-src 'none'" in page
    assert "script-src" not in page
    assert "unsafe" not in page
    assert not re.search(r"<link|@import|url\(\s*['\"]?http", page.split("</style>")[0])


def test_the_page_escapes_what_the_archive_holds(tmp_path: Path):
    archive = Archive(tmp_path / "a.db")
    run = RunMaker(archive)
    run.note()
    evil = "<img src=x onerror=alert(1)>"
    candidate = run.timed(run.candidate(evil, reason=evil), 1500)
    run.failed(run.candidate("b"), "incorrect", evil)
    run.finish(candidate, 1500)
    page = render(archive, RUN, "html")
    words = Words()
    words.feed(page)
    assert "x" not in words.loads
    assert evil in " ".join(words.words)
    assert "<img" not in render(archive, RUN, "markdown").replace(evil, "", 1).split("## Winning source")[0]


def test_the_winning_source_is_shown_whole(won):
    report = build_report(won)
    assert report.sources[0].source.splitlines()[0] == "// warpsmith-unit: 1"
    assert report.sources[0].values == {"UNROLL": 8}
    words = Words()
    words.feed(render(won, None, "html"))
    shown = "".join(words.words)
    assert all(line.strip() in shown for line in report.sources[0].source.splitlines())
    assert report.sources[0].source.rstrip() in render(won, None, "markdown")


def test_progress_leaves_out_confirmations_and_never_falls(won):
    points = build_report(won).progress
    assert [p.evaluations for p in points] == list(range(1, 15))
    assert all(a.best <= b.best for a, b in pairwise(points))
    assert points[2].speedup == 0  # the incorrect one


def test_the_lineage_marks_the_way_to_the_winner_through_both_parents(won):
    report = build_report(won)
    path = {n.number for n in report.lineage if n.on_path}
    assert path == {2, 4, 5, 11, 14}
    crossed = next(n for n in report.lineage if n.operator == "crossover")
    assert len(crossed.parents) == 2
    assert [e.operator for e in report.evidence][-3:] == ["repair", "crossover", "tune"]


def test_the_lineage_is_plain_lines_in_pipes_and_a_tree_on_a_terminal(won):
    shown = render(won, RUN, "text")
    assert not re.search("[\u2500-\u257f]", shown)
    assert "* #11 two-pass, streamed [crossover] 1.20×, from #5 and #2" in shown.splitlines()
    out = io.StringIO()
    Console(file=out, width=120, force_terminal=True).print(renderable(build_report(won, RUN)))
    assert "└── " in out.getvalue()


def test_the_progress_chart_marks_the_confirmed_winner_with_its_interval(won):
    report = build_report(won, RUN)
    claim = report.claim
    points = list_points(report)
    (star,) = [p for p in points if p.claimed]
    assert (points.index(star) + 1, star.ratio, star.confirmed) == (14, claim.speedup, True)
    assert describe_claimed(report) == "Large dot: winner, confirmed, 1.24× [1.20, 1.27] over torch.compile."
    assert describe_claimed(report) in plain(render(won, RUN, "html"), "html")
    assert claim.speedup.median < max(
        p.speedup for p in report.progress
    )  # the search's own number was luckier
    assert max(p.best for p in report.progress) < max(
        p.speedup for p in report.progress
    )  # the best so far is what is sure


def test_the_progress_chart_does_not_call_confirmed_what_is_not(tmp_path: Path):
    archive = Archive(tmp_path / "a.db")
    run = RunMaker(archive)
    run.timed(run.candidate("a"), 1500)
    report = build_report(archive)
    assert "best, not confirmed" in describe_claimed(report)
    assert [p.confirmed for p in list_points(report)] == [False]


def test_roofline_points_lie_below_the_measured_roof(won):
    report = build_report(won)
    assert report.limit is not None
    kinds = [p.kind for p in report.roofline]
    assert (kinds.count("baseline"), kinds.count("best"), kinds.count("candidate")) == (3, 1, 10)
    for point in report.roofline:
        roof = min(report.limit.flops_per_second, point.intensity * report.limit.bytes_per_second)
        assert point.flops_per_second < roof


def test_stages_count_candidates_not_confirmations(won):
    assert build_report(won).stages == {
        "ok": 10,
        "build-failed": 1,
        "crashed": 1,
        "timeout": 1,
        "incorrect": 1,
    }


def test_an_unfinished_run_says_so(tmp_path: Path):
    archive = Archive(tmp_path / "a.db")
    run = RunMaker(archive)
    assert "nothing valid yet" in render(archive, RUN)
    run.timed(run.candidate("a"), 1500)
    report = build_report(archive)
    assert report.status == "unfinished"
    assert "so far 1.26×" in report.headline
    assert "not yet confirmed" in report.headline


def test_what_weakens_a_claim_is_said(tmp_path: Path):
    archive = Archive(tmp_path / "a.db")
    run = RunMaker(archive)
    run.note(admitted=False)
    candidate = run.timed(run.candidate("a"), 1500)
    run.finish(candidate, 1500, status="no-win", reason="the task is quarantined")
    notes = " ".join(build_report(archive).warnings)
    assert "quarantined, so no speedup on it counts: zeros pass on it" in notes
    assert "not measured again in fresh processes" in notes
    assert build_report(archive).headline.startswith("softmax: no win: ")


def test_json_is_the_report_and_reads_back(won):
    assert Report.model_validate_json(render(won, RUN, "json")) == build_report(won, RUN)


def test_bad_requests_are_one_line(won):
    with pytest.raises(UsageError, match="choose one of text, markdown, html, json"):
        render(won, RUN, "pdf")
    with pytest.raises(ArchiveError, match="no run zzz"):
        render(won, "zzz")


def test_the_command_repeats_the_run_at_its_limits_and_constants(tmp_path: Path):
    run = Archive(tmp_path / "a.db")
    maker = RunMaker(run)
    maker.note()
    (main,) = maker.task.variants
    task = maker.task.model_copy(
        update={"variants": (main.model_copy(update={"overrides": {"mode": "a b", "rows": 80}}),)}
    )
    begun = run.run(RUN)
    config = {"budget": {"evaluations": 30, "seconds": None}}
    first, report = commands(begun.model_copy(update={"config": config}), task, win=False)
    assert first == (
        "warpsmith optimize examples/softmax.py --target cpu --seed 20231 "
        """--set 'mode='"'"'a b'"'"'' --set rows=80 --budget 30 --time 0"""
    )
    assert report.startswith(f"warpsmith report {RUN}")


def test_the_command_names_baselines_server_and_settings(tmp_path: Path):
    """Each as it can be given; what is as it is by default, or says where things lie, is left out."""
    archive = Archive(tmp_path / "a.db")
    maker = RunMaker(archive)
    settings = {
        "archive": "/somewhere/a.db", "baselines": ["eager", "compile"], "tuner": "random", "steering": False,
        "compiler": "/my tools/g++", "patience": 3, "model": "openai:local", "gone": 1,
    }  # fmt: skip
    maker.finish(maker.timed(maker.candidate("a"), 1500), 1500)
    run = archive.run(RUN)
    summary = run.summary.model_copy(update={"base_url": "http://localhost:8000/v1"})
    run = run.model_copy(update={"config": {"config": settings}, "summary": summary})
    first = commands(run, maker.task, win=False)[0]
    assert first == (
        "WARPSMITH_TUNER=random WARPSMITH_STEERING=False WARPSMITH_COMPILER='/my tools/g++' "
        "warpsmith optimize examples/softmax.py --target cpu --seed 20231 --baselines eager,compile "
        "--model openai:local --base-url http://localhost:8000/v1"
    )


def test_a_question_that_was_cut_by_a_limit_is_listed():
    cut = Exchange(
        key="k", role="synthesis", model="openai:x", system="s", prompt="p", error=f"{CUT}time of 90 s spent"
    )
    (row,) = rows([cut], [])
    assert row.outcome == (
        "no answer: passing fault: under way when the run had to end, so that its cost is not known: time of 90 s spent"
    )


def test_a_module_from_memory_has_no_command_line(tmp_path: Path):
    archive = Archive(tmp_path / "a.db")
    maker = RunMaker(archive)
    source = maker.task.source.model_copy(update={"kind": "memory"})
    task = maker.task.model_copy(update={"source": source})
    assert all("optimize" not in c for c in commands(archive.run(RUN), task, win=True))


@pytest.mark.parametrize("format", FORMATS)
def test_the_mutants_of_the_task_are_listed(won, format):
    text = plain(render(won, RUN, format), format)
    assert "stale replay" in text


def test_a_claim_over_eager_is_not_told_twice(tmp_path: Path):
    archive = Archive(tmp_path / "a.db")
    run = RunMaker(archive)
    candidate = run.timed(run.candidate("a"), 1500)
    assert build_report(archive).claim.eager_text.startswith("1.47× PyTorch eager")
    entry = archive.run_entries(RUN)[0]
    eager = entry.result.timing.ratio("eager")
    timing = entry.result.timing.model_copy(update={"ratios": (eager,), "confirmed": True})
    archive.add_confirmation(RUN, candidate, entry.result.model_copy(update={"timing": timing}))
    claim = build_report(archive).claim
    assert claim.speedup == eager
    assert claim.eager_text == ""


def test_a_reason_that_repeats_the_evidence_is_told_once(tmp_path: Path):
    archive = Archive(tmp_path / "a.db")
    run = RunMaker(archive)
    run.timed(run.candidate("a", reason="the region takes 96% of the time; it reaches 59%"), 1500)
    (step,) = build_report(archive).evidence
    assert step.reason == ""
    assert step.evidence[0] == "the region takes 96% of the time"


def test_a_run_that_was_too_busy_to_tell_shows_no_median_in_any_format(tmp_path: Path):
    archive = Archive(tmp_path / "a.db")
    run = RunMaker(archive)
    run.timed(run.candidate("slow"), 2000)
    spoilt = run.candidate("spoilt")
    run.timed(spoilt, 600, busy="it waited")
    run.timed(spoilt, 611, confirmed=True, busy="it waited")
    run.finish(spoilt, 611, "too-busy", "the machine was too busy to confirm anything: it waited")
    report = build_report(archive)
    assert report.headline.startswith("softmax: too busy to tell: unknown (too noisy: 0.00 to ")
    assert [p.best for p in report.progress] == 2 * [pytest.approx(report.attempts[0].speedup.low)]
    median = f"{report.claim.speedup.median:.2f}×"
    for format in ("text", "markdown", "html"):
        text = plain(render(archive, None, format), format)
        assert "unknown (too noisy" in text
        assert median not in text
