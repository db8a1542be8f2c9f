"""Charts as SVG, with a title and a description in words. Dots stand at the low end of an interval, which is what is sure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ..records import Ratio
from ..records.intervals import find_worth, is_unknown
from ..report.wording import baseline_name, microseconds
from .safety import clip, show_controls

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 240, 46, 12, 14, 30  # pixels
MAX_POINTS = 300  # of a chart; of more the latest and the best are drawn
LEAST, MOST = 0.05, 100.0  # speedups beyond are drawn at the edge
ROW_PX = 30
NAMES_PX = 206  # where names end, and bars begin


@dataclass(frozen=True)
class Point:
    """An attempt: its place in order, and its speedup, or why there is none."""

    number: int
    label: str
    status: str
    ratio: Ratio | None
    confirmed: bool


def draw_attempts(points: Sequence[Point], total: int) -> Markup:
    """Draw attempts in their order with their intervals, and the best so far by the low end. `total`: attempts there are."""
    if not points:
        return Markup("")
    sure = [find_worth(p.ratio) for p in points if p.ratio is not None]
    highest = max(
        [p.ratio.high for p in points if p.ratio is not None and not is_unknown(p.ratio)] + sure, default=1.0
    )
    scale = _Scale(min([s for s in sure if s > 0], default=1.0), highest)
    step = (WIDTH - LEFT - RIGHT) / len(points)
    drawn, line, best = [], [], 0.0
    for index, point in enumerate(points):
        x = LEFT + step * (index + 0.5)
        drawn.append(_draw_point(point, x, scale))
        if find_worth(point.ratio) > best:
            line.append(f"{'H' if best else 'M'}{x:.1f}")
            best = find_worth(point.ratio)
            line.append(f"V{scale.y(best):.1f}" if len(line) > 1 else f" {scale.y(best):.1f}")
    if line:
        line.append(f"H{WIDTH - RIGHT}")
    ticks = Markup("").join(_draw_tick(value, scale) for value in scale.ticks())
    path = Markup('<path class=best d="{}"/>').format("".join(line)) if line else Markup("")
    failures = sum(p.ratio is None for p in points)
    text = f"{len(points)} of {total} attempts in order; {failures} without a speedup. " + (
        f"The best low end of an interval is {best:.2f} times the fastest baseline."
        if best
        else "None was timed."
    )
    return wrap_chart("Attempts over time", text, HEIGHT, ticks + path + Markup("").join(drawn))


def draw_ratios(ratios: Sequence[Ratio]) -> Markup:
    """Draw the speedup over each baseline as an interval beside the line of equal speed."""
    if not ratios:
        return Markup("")
    lows, highs = [max(r.low, LEAST) for r in ratios], [min(r.high, MOST) for r in ratios]
    scale = _Scale(min(lows), max(highs))
    rows = Markup("").join(_draw_ratio(r, TOP + ROW_PX * (i + 0.5), scale) for i, r in enumerate(ratios))
    bottom = TOP + ROW_PX * len(ratios)
    equal_x = scale.x(1.0)
    line = Markup(
        '<path class=one d="M{0:.1f} {1}V{2}"/><text x="{0:.1f}" y="{3}" text-anchor=middle>1×</text>'
    ).format(equal_x, TOP, bottom, bottom + 18)
    parts = [f"{baseline_name(r.baseline)}: {r.low:.2f} to {r.high:.2f}" for r in ratios]
    return wrap_chart("Speedups with their 95% intervals", "; ".join(parts), bottom + BOTTOM, line + rows)


class _Scale:
    """A logarithmic scale that holds 1."""

    def __init__(self, low: float, high: float) -> None:
        self.low = max(LEAST, min(low, 1.0) * 0.85)
        self.high = min(MOST, max(high, 1.0) * 1.15)

    def share(self, value: float) -> float:
        clamped = min(max(value, self.low), self.high)
        return math.log(clamped / self.low) / math.log(self.high / self.low)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - self.share(value) * (HEIGHT - TOP - BOTTOM)

    def x(self, value: float) -> float:
        return NAMES_PX + self.share(value) * (WIDTH - NAMES_PX - 130)

    def ticks(self) -> list[float]:
        marks = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
        return [m for m in marks if self.low <= m <= self.high]


def _draw_tick(value: float, scale: _Scale) -> Markup:
    return Markup(
        '<path class={0} d="M{1} {2:.1f}H{3}"/><text x="{4}" y="{5:.1f}" text-anchor=end>{6:g}×</text>'
    ).format(
        "one" if value == 1.0 else "grid",
        LEFT,
        scale.y(value),
        WIDTH - RIGHT,
        LEFT - 6,
        scale.y(value) + 4,
        value,
    )


def _draw_point(point: Point, x: float, scale: _Scale) -> Markup:
    tip = clip(show_controls(f"#{point.number} {point.label}: {point.status}"), 90)
    if point.ratio is None:
        y = HEIGHT - BOTTOM + 10
        return Markup('<path class=bad d="M{:.1f} {}v8"><title>{}</title></path>').format(x, y, tip)
    low, high = scale.y(find_worth(point.ratio)), scale.y(point.ratio.high)
    shape = Markup(
        '<path class=bar d="M{0:.1f} {1:.1f}V{2:.1f}"/><circle class={3} cx="{0:.1f}" cy="{1:.1f}" r="3.5"><title>{4}</title></circle>'
    )
    return shape.format(x, low, high, "sure" if point.confirmed else "open", tip)


def _draw_ratio(ratio: Ratio, y: float, scale: _Scale) -> Markup:
    kind = "good" if ratio.low > 1.0 else "bad" if ratio.high < 1.0 else "even"
    shape = Markup(
        '<text x="198" y="{0:.1f}" text-anchor=end>{1}</text><path class="bar {2}" d="M{3:.1f} {4:.1f}H{5:.1f}"/>'
        '<circle class={2} cx="{3:.1f}" cy="{4:.1f}" r="4.5"/><text x="{6:.1f}" y="{0:.1f}">{7:.2f} to {8:.2f}</text>'
    )
    name = clip(show_controls(baseline_name(ratio.baseline)), 26)
    x, end = scale.x(ratio.low), scale.x(ratio.high)
    return shape.format(y + 4, name, kind, x, y, end, end + 10, ratio.low, ratio.high)


def wrap_chart(title: str, text: str, height: float, inner: Markup) -> Markup:
    """Give a chart its title and its description. Where there is no room for it, it is scrolled sideways."""
    shape = Markup(
        '<div class=charted role=group tabindex=0 aria-label="Chart: {2}"><svg class=chart viewBox="0 0 {0} {1}" role=img aria-label="{3}">'
        "<title>{2}</title><desc>{4}</desc>{5}</svg></div>"
    )
    shown = show_controls(text)
    return shape.format(WIDTH, height, title, f"{title}. {shown}", shown, inner)


def draw_times(names: Sequence[str], times: Sequence[tuple[float, float, float]], limit_us: float) -> Markup:
    """Draw (median, low, high) microseconds as bars from zero with their intervals; a line at the limit, if any."""
    if not times or not all(0 < high < math.inf and low >= 0 for _, low, high in times):
        return Markup("")
    most = 1.05 * max([high for _, _, high in times] + [limit_us])
    scale = (WIDTH - NAMES_PX - 120) / most
    rows = [
        _draw_time(show_controls(clip(name, 26)), time, TOP + ROW_PX * (i + 0.5), scale)
        for i, (name, time) in enumerate(zip(names, times, strict=True))
    ]
    bottom = TOP + ROW_PX * len(times)
    if limit_us > 0:
        line = Markup(
            '<path class=one d="M{0:.1f} {1}V{2}"/><text x="{0:.1f}" y="{3}" text-anchor=middle>limit {4}</text>'
        )
        rows.append(
            line.format(NAMES_PX + scale * limit_us, TOP, bottom, bottom + 18, microseconds(limit_us))
        )
    text = "; ".join(
        f"{n}: {microseconds(m)} [{microseconds(lo)}, {microseconds(hi)}]"
        for n, (m, lo, hi) in zip(names, times, strict=True)
    )
    return wrap_chart("Times with their 95% intervals", text, bottom + BOTTOM, Markup("").join(rows))


def _draw_time(name: str, time: tuple[float, float, float], y: float, scale: float) -> Markup:
    median, low, high = (NAMES_PX + scale * value for value in time)
    shape = Markup(
        '<text x="198" y="{0:.1f}" text-anchor=end>{1}</text><rect class={2} x="206" y="{3:.1f}" width="{4:.1f}" height="14"/>'
        '<path class=whisker d="M{5:.1f} {6:.1f}H{7:.1f}"/><text x="{8:.1f}" y="{0:.1f}">{9}</text>'
    )
    kind = "mine" if name == "this kernel" else "its"
    return shape.format(
        y + 4, name, kind, y - 7, median - NAMES_PX, low, y, high, high + 8, microseconds(time[0])
    )
