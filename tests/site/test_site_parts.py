"""Parts of pages by themselves: facets, schedules in words, the words of sources, charts, lines of campaigns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from warpsmith.archive import Entry
from warpsmith.records import Limit, TaskSource, Tunable
from warpsmith.site.facets import find_level, list_values
from warpsmith.site.findings import read_finding, read_ratio
from warpsmith.site.kernel_facts import draw_kernel_roofline, draw_kernel_times
from warpsmith.site.kernel_units import find_summary, tabulate_schedule
from warpsmith.site.search_index import SearchIndex
from warpsmith.site.source_lines import SourceLines
from warpsmith.site.suite_pages import read_suite, read_suites
from warpsmith.site.tunables import MEANINGS
from warpsmith.testing import chain_candidate, chain_task, scripted_result

KERNELS = Path(__file__).resolve().parents[2] / "src/warpsmith/kernels"


@pytest.mark.parametrize(
    ("suite", "path", "level"),
    [
        ("KernelBench level2", "", "level 2"),
        ("", "/x/level1/3_a.py", "level 1"),
        ("core", "core/a.py", "core"),
        ("", "a.py", ""),
    ],
)
def test_a_level_comes_from_the_suite_or_the_path(suite: str, path: str, level: str) -> None:
    task = chain_task().model_copy(
        update={"suite": suite, "source": TaskSource(kind="kernelbench", path=path)}
    )
    assert find_level(task) == level


def test_a_facet_that_tells_nothing_apart_is_left_out() -> None:
    same = {
        "level": "",
        "family": "norm|scan",
        "dtype": "float32",
        "label": "",
        "machine": "m",
        "target": "cpu",
    }
    rows = [{"outcome": "win", **same}, {"outcome": "loss", **same, "label": "kernel"}]
    assert list_values(rows) == {"outcome": ["loss", "win"], "label": ["kernel"]}


def test_every_tunable_of_a_schedule_has_a_meaning() -> None:
    names = {
        n for p in KERNELS.rglob("*schedule*.py") for n in re.findall(r'tunes\(\s*"(\w+)"', p.read_text())
    }
    assert len(names) > 20
    assert names - set(MEANINGS) == set()


def test_a_schedule_is_read_from_its_unit() -> None:
    source = "// warpsmith-unit: 1\n// family: norm   technique: split\n// tunable: SPLIT = 4 {4, 8}\n// blocks share a row;\n// states meet\n#define X\n// no\n"
    assert find_summary(source) == "blocks share a row; states meet"
    unit = (
        chain_candidate("a")
        .units[0]
        .model_copy(update={"tunables": (Tunable(name="SPLIT", domain=(4, 8, 16), value=8),)})
    )
    cells = [c.text for c in tabulate_schedule(unit).rows[0].cells]
    assert cells == ["SPLIT", "8", "4, 16", MEANINGS["SPLIT"]]


def test_sources_are_cut_where_room_ends_and_missing_lines_counted() -> None:
    text = "int a;\n\nfloat b;\nint c;\n"
    sources = SourceLines()
    whole, missing = sources.take(text, "c++", 10_000)
    assert missing == 0
    assert re.sub("<[^>]*>", "", whole) == text
    part, missing = sources.take(text, "c++", 40)
    assert re.sub("<[^>]*>", "", part) == "int a;\n"
    assert missing == text.count("\n") + 1 - 2


def test_words_of_sources_lead_to_their_entries() -> None:
    index = SearchIndex()
    index.add_kernel(chain_candidate("a", "float acc_max = warp_sum(x);"), "task", "win")
    index.add_kernel(chain_candidate("b", "float other;"), "task", "win")
    index.add_kernel(chain_candidate("c", "ACC_MAX"), "task", "win")
    assert index.sources["acc_max"] == [0, 2]
    assert index.sources["warp_sum"] == [0]
    assert "x" not in index.sources


def make_entry(**times: float) -> Entry:
    """A correct result with these times, under a limit of 4 operations a byte."""
    candidate = chain_candidate("a")
    result = scripted_result(candidate, 2.0)
    limit = Limit(
        seconds=1e-5, least_bytes=1000, flops=4000, bytes_per_second=1e8, flops_per_second=1e9, bound="memory"
    )
    assert result.timing is not None
    timing = result.timing.model_copy(update={"limit": limit, **times})
    return Entry(candidate=candidate, result=result.model_copy(update={"timing": timing}))


def test_a_roofline_stands_at_the_tasks_intensity() -> None:
    chart = draw_kernel_roofline(make_entry(median_us=20.0), None)
    assert "At 4 FLOP per byte" in chart
    assert "this kernel" in chart


@pytest.mark.parametrize("time", [(1.0, 0.5, float("inf")), (0.0, 0.0, 0.0), (1.0, -1.0, 2.0)])
def test_times_that_are_none_are_not_drawn(time: tuple[float, float, float]) -> None:
    entry = make_entry(**dict(zip(("median_us", "low_us", "high_us"), time, strict=True)))
    assert draw_kernel_times(entry, None) == ""
    assert draw_kernel_roofline(entry, None) == ""


@pytest.mark.parametrize(
    "values", [None, [1, 2], [1, None, 2], ["1", 2, 3], [float("nan"), 1, 2], {"median": 1}, [True, 1, 2]]
)
def test_ratios_of_lines_are_three_numbers_or_nothing(values: object) -> None:
    assert read_ratio("eager", values) is None


def test_lines_of_three_kinds_of_campaigns_are_read() -> None:
    record = {"baseline": "compile", "median": 2.0, "low": 1.9, "high": 2.1}
    rows = [
        {
            "task": "a",
            "status": "win",
            "summary": {
                "best": {"label": "x", "speedup": record, "speedup_eager": record, "limit_share": 0.5}
            },
        },
        {
            "task": "b",
            "status": "no-win",
            "techniques": ["t"],
            "ratios": {"eager": [1.5, 1.4, 1.6], "compile": [0.9, 0.8, 1.0]},
        },
        {
            "item": "c",
            "status": "win",
            "label": "y",
            "baseline": "eager",
            "speedup": [3.0, 2.9, 3.1],
            "machine": "m",
        },
    ]
    suite = read_suite("s", rows)
    assert suite is not None
    assert [(r.task, r.kernel, r.best.baseline if r.best else "", r.best.low if r.best else 0) for r in suite.rows] == [
        ("a", "x", "compile", 1.9), ("b", "t", "compile", 0.8), ("c", "y", "eager", 2.9)
    ]  # fmt: skip
    assert suite.rows[1].eager is not None
    assert read_suites({"s": rows, "other": [*rows, {"task": "d", "status": "ready"}], "none": []}) == [suite]


def test_a_line_without_a_claim_is_no_finding() -> None:
    assert read_finding({"task": "a", "verdict": "correct"}) is None
    finding = read_finding(
        {
            "task": "a",
            "claimed": "much",
            "verdict": "correct",
            "speedup": {"best": [1, 1, 1]},
            "best": "eager",
        }
    )
    assert finding is not None
    assert (finding.claimed, finding.best.baseline if finding.best else "") == (None, "eager")
