"""Charts: what is sure is what is drawn, names are never cut, text stands beside every bar, and nothing is markup."""

from __future__ import annotations

import math
import re

import pytest

from warpsmith.pages.bars import Bar, draw_bars, draw_parts, draw_ratios, rate
from warpsmith.pages.charts import MAX_POINTS, Point, choose_points, draw_attempts, draw_ranking, place_y
from warpsmith.pages.roofline_chart import Rate, draw_roofline
from warpsmith.pages.scales import LogScale, make_speedup_scale
from warpsmith.records import Ratio

EVIL = "</title><script>alert(1)</script>\u202e"


def ratio(median: float, low: float, high: float, baseline: str = "compile") -> Ratio:
    return Ratio(baseline=baseline, median=median, low=low, high=high)


def point(number: int, shown: Ratio | None, confirmed: bool = False) -> Point:
    return Point(number, f"kernel {number}", "ok" if shown else "incorrect", shown, confirmed)


def find_circles(drawn: str) -> list[tuple[str, float]]:
    """(classes, height in pixels) of each dot, in order."""
    return [
        (kind, float(y))
        for kind, y in re.findall(r'<circle class="([^"]+)" cx="[\d.]+%" cy="([\d.]+)"', drawn)
    ]


def test_best_so_far_goes_by_the_low_end_and_not_by_a_noisy_median() -> None:
    noisy, sure = ratio(3.0, 1.1, 3.9), ratio(1.5, 1.45, 1.55)
    drawn = str(draw_attempts([point(1, noisy), point(2, sure, confirmed=True)], 2))
    assert "The best low end of an interval is 1.45 times" in drawn
    (_, first), (kind, second) = find_circles(drawn)
    assert second < first, "the sure one stands higher"
    assert "sure" in kind
    ends = [float(y) for y in re.findall(r'<line class=best [^>]*y2="([\d.]+)"', drawn)]
    assert ends[-1] == pytest.approx(second, abs=0.1), "the line ends at what is sure"


def test_attempts_without_a_speedup_are_marked_and_counted() -> None:
    drawn = str(draw_attempts([point(1, None), point(2, ratio(1.1, 1.0, 1.2))], 7))
    assert drawn.count("<line class=fault") == 1
    assert "2 of 7 attempts in order; 1 without a speedup." in drawn
    assert draw_attempts([], 0) == ""


def test_of_many_attempts_the_best_and_the_latest_are_drawn() -> None:
    points = [
        point(n, ratio(9.0, 8.0, 10.0) if n == 1 else ratio(1.1, 1.0, 1.2)) for n in range(1, 2 * MAX_POINTS)
    ]
    chosen = choose_points(points)
    assert len(chosen) == MAX_POINTS
    assert (chosen[0].number, chosen[-1].number) == (1, points[-1].number)


@pytest.mark.parametrize(
    ("shown", "kind"),
    [
        (ratio(1.5, 1.4, 1.6), "good"),
        (ratio(0.8, 0.7, 0.9), "bad"),
        (ratio(1.0, 0.9, 1.1), "even"),
        (ratio(2.0, 1.1, 9.0), "even"),
        (None, "even"),
    ],
)
def test_a_colour_needs_the_whole_interval(shown: Ratio | None, kind: str) -> None:
    assert rate(shown) == kind


def test_a_row_has_its_whole_name_and_its_numbers_as_text() -> None:
    name = "a baseline with quite a long name that no chart may cut anywhere"
    drawn = str(draw_ratios([ratio(1.24, 1.2, 1.27)], names=[name]))
    assert f"<span class=name>{name}</span>" in drawn
    assert "<span class=value>1.24× [1.20, 1.27]</span>" in drawn
    assert 'aria-label="1.24× [1.20, 1.27]"' in drawn


def test_an_unknown_speedup_is_drawn_without_its_median() -> None:
    drawn = str(draw_ratios([ratio(7.77, 0.0, 14.0)]))
    assert "7.77" not in drawn
    assert "unknown (too noisy: 0.00 to 14.00)" in drawn


def test_the_ranking_counts_who_is_surely_faster() -> None:
    named = [("a", ratio(0.7, 0.66, 0.74)), ("b", ratio(2.0, 1.9, 2.1)), ("c", ratio(1.0, 0.97, 1.02))]
    drawn = str(draw_ranking(named, "All"))
    assert "3 in order of their low ends; 1 surely above 1, 1 surely below." in drawn
    assert [kind.split()[-1] for kind, _ in find_circles(drawn)] == ["good", "even", "bad"]


def test_parts_are_as_wide_as_their_counts() -> None:
    drawn = str(draw_parts([("win", 3, "good"), ("tie", 0, "even"), ("loss", 1, "bad")], "Ends"))
    assert 'aria-label="3 win; 1 loss"' in drawn
    starts = [float(x) for x in re.findall(r'<rect class="fill \w+" x="([\d.]+)%"', drawn)]
    assert starts == [0.0, 75.0]


def test_bars_end_at_their_values_and_the_limit_has_a_line_in_each_row() -> None:
    drawn = str(
        draw_bars([Bar("a", 2.0, "2 ms", low=1.9, high=2.0), Bar("b", 1.0, "1 ms")], "Times", 0.5, "limit")
    )
    wide, narrow = (
        float(w) for w in re.findall(r'<rect class="fill base" x="0" y="3" width="([\d.]+)%"', drawn)
    )
    assert wide == pytest.approx(2 * narrow)
    assert drawn.count("<line class=mark") == 2


def test_the_roof_has_its_ridge_where_both_peaks_meet() -> None:
    drawn = str(draw_roofline([Rate("kernel", 5e9, "good")], 0.75, 10e9, 100e9))
    (slope, flat) = re.findall(
        r'<line class=roof x1="([\d.]+)%" y1="([\d.]+)" x2="([\d.]+)%" y2="([\d.]+)"', drawn
    )
    assert slope[2:] == flat[:2], "they meet"
    assert flat[1] == flat[3]
    assert "they allow 7.5 GFLOP/s" in drawn
    assert "kernel: 5 GFLOP/s, 67% of what the peaks allow" in drawn


@pytest.mark.parametrize(("low", "high"), [(0.9, 1.3), (0.5, 20.0), (1e-3, 1e3)])
def test_a_scale_has_a_few_round_values(low: float, high: float) -> None:
    ticks = LogScale(low, high).list_ticks()
    assert 2 <= len(ticks) <= 8
    assert all(low <= tick <= high for tick in ticks)
    assert any(tick == pytest.approx(1.0) for tick in ticks)


def test_higher_speedups_stand_higher_and_none_leaves_the_chart() -> None:
    scale = make_speedup_scale([0.5], [3.0])
    heights = [place_y(scale, value) for value in (0.0001, 0.5, 1.0, 3.0, 1e9)]
    assert heights == sorted(heights, reverse=True)
    assert all(0 <= y <= 250 for y in heights)


def test_hostile_names_are_text() -> None:
    shown = ratio(1.2, 1.1, 1.3, EVIL)
    charts = [
        draw_ratios([shown], EVIL), draw_bars([Bar(EVIL, 1.0, EVIL)], EVIL, 1.0, EVIL), draw_parts([(EVIL, 1, "good")], EVIL),
        draw_attempts([Point(1, EVIL, EVIL, shown, True)], 1, EVIL), draw_ranking([(EVIL, shown)], EVIL),
        draw_roofline([Rate(EVIL, 1e9, "good")], 1.0, 1e9, 1e9),
    ]  # fmt: skip
    for drawn in charts:
        assert "<script" not in drawn
        assert "\u202e" not in drawn
        assert "[U+202E]" in drawn


@pytest.mark.parametrize("number", [math.inf, math.nan, 0.0, -1.0])
def test_numbers_that_are_none_break_no_chart(number: float) -> None:
    odd = Ratio.model_construct(baseline="eager", median=number, low=number, high=number)
    charts = [
        draw_ratios([odd, ratio(1.2, 1.1, 1.3)]), draw_attempts([point(1, odd)], 1), draw_ranking([("a", odd)], "All"),
        draw_bars([Bar("a", number, "a", low=number, high=number), Bar("b", 1.0, "b")], "Bars", number, "mark"),
        draw_roofline([Rate("a", number, "good")], 1.0, 1e9, 1e9), draw_roofline([Rate("a", 1.0, "good")], number, number, 1e9),
    ]  # fmt: skip
    places = [float(v) for drawn in charts for v in re.findall(r'(?:x|cx|x1|x2|width)="(-?[\w.]+)%"', drawn)]
    assert places
    assert all(0 <= v <= 100 for v in places)
