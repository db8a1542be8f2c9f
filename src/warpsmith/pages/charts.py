"""Charts as SVG, with a title and a description in words. Dots stand at the low end of an interval, which is what is sure.

Places across are percents and heights are pixels, so that a chart fits any width and its text keeps its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ..records import Ratio
from ..records.intervals import find_worth, is_unknown
from .bars import rate
from .safety import clip, show_controls
from .scales import LogScale, make_speedup_scale

HEIGHT_PX, TOP_PX, BOTTOM_PX = 250, 22, 26
FIRST, LAST = 9.5, 98.0  # percent of the width that points stand between
MAX_POINTS = 300  # of a chart; of more the latest and the best are drawn
LEGEND = "Dots: low end of the 95% interval, full ones are confirmed. Line: the best low end so far. Marks below: no speedup."


@dataclass(frozen=True)
class Point:
    """An attempt: its place in order, and its speedup, or why there is none."""

    number: int
    label: str
    status: str
    ratio: Ratio | None
    confirmed: bool
    claimed: bool = False


def choose_points(points: Sequence[Point]) -> list[Point]:
    """Choose what is drawn of many: half the best, the others the latest; in their order."""
    if len(points) <= MAX_POINTS:
        return list(points)
    best = sorted(points, key=lambda p: -find_worth(p.ratio))[: MAX_POINTS // 2]
    chosen = {id(p) for p in best}
    latest = [p for p in reversed(points) if id(p) not in chosen][: MAX_POINTS - len(best)]
    return sorted([*best, *latest], key=lambda p: p.number)


def draw_attempts(points: Sequence[Point], total: int, note: str = "") -> Markup:
    """Draw attempts in their order with their intervals, and the best so far by the low end. `total`: attempts there are."""
    if not points:
        return Markup("")
    scale = _make_scale([p.ratio for p in points])
    step = (LAST - FIRST) / len(points)
    drawn = [_draw_point(p, FIRST + step * (i + 0.5), scale) for i, p in enumerate(points)]
    lines, best = _draw_best(points, scale, step)
    failures = sum(p.ratio is None for p in points)
    text = f"{len(points)} of {total} attempts in order; {failures} without a speedup. " + (
        f"The best low end of an interval is {best:.2f} times the fastest baseline."
        if best
        else "None was timed."
    )
    return _wrap(
        "Speedup over the fastest baseline, attempt by attempt",
        text,
        _draw_ticks(scale) + lines + Markup("").join(drawn),
        f"{LEGEND} {note}".strip(),
    )


def draw_ranking(named: Sequence[tuple[str, Ratio]], title: str) -> Markup:
    """Draw speedups in the order of their low ends, the fastest first, each with its interval."""
    if not named:
        return Markup("")
    ranked = sorted(named, key=lambda pair: -find_worth(pair[1]))
    scale = _make_scale([ratio for _, ratio in ranked])
    step = (LAST - FIRST) / len(ranked)
    drawn = [
        _draw_point(Point(i, name, "", ratio, True), FIRST + step * (i + 0.5), scale, rate(ratio))
        for i, (name, ratio) in enumerate(ranked)
    ]
    sure = sum(rate(ratio) == "good" for _, ratio in ranked)
    slower = sum(rate(ratio) == "bad" for _, ratio in ranked)
    text = f"{len(ranked)} in order of their low ends; {sure} surely above 1, {slower} surely below."
    legend = "Dots: low end of the 95% interval; lines: the interval."
    return _wrap(title, text, _draw_ticks(scale) + Markup("").join(drawn), legend)


def place_y(scale: LogScale, value: float) -> float:
    """Return the height of a value, in pixels from the top."""
    return HEIGHT_PX - BOTTOM_PX - scale.place(value) / 100.0 * (HEIGHT_PX - TOP_PX - BOTTOM_PX)


def _make_scale(ratios: Sequence[Ratio | None]) -> LogScale:
    timed = [r for r in ratios if r is not None]
    highs = [find_worth(r) if is_unknown(r) else r.high for r in timed]
    return make_speedup_scale([find_worth(r) for r in timed], highs)


def _draw_best(points: Sequence[Point], scale: LogScale, step: float) -> tuple[Markup, float]:
    """Draw the steps of the best low end so far; return them and where they end."""
    segment = Markup('<line class=best x1="{:.2f}%" y1="{:.1f}" x2="{:.2f}%" y2="{:.1f}"/>')
    lines, best, last_x = [], 0.0, 0.0
    for index, point in enumerate(points):
        worth, x = find_worth(point.ratio), FIRST + step * (index + 0.5)
        if worth > best:
            y = place_y(scale, worth)
            if best:
                before = place_y(scale, best)
                lines += [segment.format(last_x, before, x, before), segment.format(x, before, x, y)]
            best, last_x = worth, x
    if best:
        y = place_y(scale, best)
        lines.append(segment.format(last_x, y, LAST, y))
    return Markup("").join(lines), best


def _draw_ticks(scale: LogScale) -> Markup:
    """Draw lines across, each with its value above its beginning."""
    tick = Markup(
        '<line class={0} x1="0" y1="{1:.1f}" x2="100%" y2="{1:.1f}"/><text x="0" y="{2:.1f}">{3:g}×</text>'
    )
    return Markup("").join(
        tick.format("one" if v == 1.0 else "grid", place_y(scale, v), place_y(scale, v) - 3, v)
        for v in scale.list_ticks()
    )


def _draw_point(point: Point, x: float, scale: LogScale, kind: str = "") -> Markup:
    tip = clip(show_controls(f"#{point.number} {point.label}: {point.status}".removesuffix(": ")), 90)
    if point.ratio is None:
        y = HEIGHT_PX - BOTTOM_PX + 10
        mark = '<line class=fault x1="{0:.2f}%" y1="{1}" x2="{0:.2f}%" y2="{2}"><title>{3}</title></line>'
        return Markup(mark).format(x, y, y + 9, tip)
    low, high = place_y(scale, find_worth(point.ratio)), place_y(scale, point.ratio.high)
    shape = Markup(
        '<line class="span {4}" x1="{0:.2f}%" y1="{1:.1f}" x2="{0:.2f}%" y2="{2:.1f}"/>'
        '<circle class="{3} {4}" cx="{0:.2f}%" cy="{1:.1f}" r="{5}"><title>{6}</title></circle>'
    )
    radius = "6" if point.claimed else "3.5"
    return shape.format(x, low, high, "sure" if point.confirmed else "open", kind or "base", radius, tip)


def _wrap(title: str, text: str, inner: Markup, legend: str) -> Markup:
    figure = Markup(
        "<figure class=plot><figcaption>{0}</figcaption>"
        '<svg class=plotted width="100%" height="{1}" role=img aria-label="{0}. {2}"><title>{0}</title><desc>{2}</desc>{3}</svg>'
        "<p class=keys>{4}</p></figure>"
    )
    return figure.format(show_controls(title), HEIGHT_PX, show_controls(text), inner, show_controls(legend))
