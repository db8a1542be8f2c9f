"""The roofline of a task: measured peak rates as the roof, and the rate at which each implementation does the reference's arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ..wording import flops
from .bars import Kind
from .safety import clip, show_controls
from .scales import LogScale

HEIGHT_PX, TOP_PX, BOTTOM_PX = 260, 12, 40
WIDEST = 8.0  # times below and above the ridge and the task's own intensity


@dataclass(frozen=True)
class Rate:
    """An implementation: FLOP/s of the reference's arithmetic."""

    name: str
    flops_per_second: float
    kind: Kind
    shown: bool = True  # by name, in the legend


def draw_roofline(
    rates: Sequence[Rate], intensity: float, bytes_per_second: float, flops_per_second: float
) -> Markup:
    """Draw the roof and a dot for each rate. `intensity`: FLOP of the reference per byte that must be moved. Where a number is not
    positive, nothing is drawn.
    """
    numbers = [intensity, bytes_per_second, flops_per_second, *(r.flops_per_second for r in rates)]
    if not rates or not all(0 < n < math.inf for n in numbers):
        return Markup("")
    ridge = flops_per_second / bytes_per_second
    across = LogScale(min(ridge, intensity) / WIDEST, max(ridge, intensity) * WIDEST, 0.0, 100.0)
    roof = min(flops_per_second, intensity * bytes_per_second)
    speeds = [r.flops_per_second for r in rates]
    up = LogScale(min([*speeds, roof]) / 2, max([*speeds, flops_per_second]) * 2, 0.0, 100.0)
    drawn = [_draw_grid(across, up), _draw_roof(across, up, bytes_per_second, flops_per_second)]
    drawn += [_draw_rate(rate, across.place(intensity), up) for rate in rates]
    peaks = f"{bytes_per_second / 1e9:.1f} GB/s, {flops(flops_per_second)}"
    text = f"Measured peaks {peaks}. At {intensity:.3g} FLOP per byte they allow {flops(roof)}."
    return _wrap(text, Markup("").join(drawn), _list_rates(rates, roof))


def _y(up: LogScale, value: float) -> float:
    return HEIGHT_PX - BOTTOM_PX - up.place(value) / 100.0 * (HEIGHT_PX - TOP_PX - BOTTOM_PX)


def _draw_roof(across: LogScale, up: LogScale, bytes_per_second: float, flops_per_second: float) -> Markup:
    """Draw it from the left edge, or from where it enters the chart, to the ridge and to the right edge."""
    ridge = flops_per_second / bytes_per_second
    start = max(across.low, up.low / bytes_per_second)
    line = Markup('<line class=roof x1="{:.2f}%" y1="{:.1f}" x2="{:.2f}%" y2="{:.1f}"/>')
    top = _y(up, flops_per_second)
    slope = line.format(across.place(start), _y(up, start * bytes_per_second), across.place(ridge), top)
    return slope + line.format(across.place(ridge), top, 100.0, top)


def _draw_grid(across: LogScale, up: LogScale) -> Markup:
    row = Markup(
        '<line class=grid x1="0" y1="{0:.1f}" x2="100%" y2="{0:.1f}"/><text x="0" y="{1:.1f}">{2}</text>'
    )
    column = Markup('<text x="{:.2f}%" y="{}" text-anchor={}>{}</text>')
    rows = [row.format(_y(up, v), _y(up, v) - 3, flops(v)) for v in _list_decades(up)]
    columns = []
    for value in _list_decades(across):
        x = across.place(value)
        anchor = "start" if x < 6 else "end" if x > 94 else "middle"
        columns.append(column.format(x, HEIGHT_PX - BOTTOM_PX + 16, anchor, f"{value:g}"))
    name = Markup('<text x="50%" y="{}" text-anchor=middle>FLOP per byte of least traffic</text>')
    return Markup("").join([*rows, *columns, name.format(HEIGHT_PX - 6)])


def _list_decades(scale: LogScale) -> list[float]:
    first, last = math.ceil(math.log10(scale.low)), math.floor(math.log10(scale.high))
    step = max(1, (last - first + 1) // 6 + 1) if last - first >= 6 else 1
    return [10.0**power for power in range(first, last + 1, step)]


def _draw_rate(rate: Rate, x: float, up: LogScale) -> Markup:
    tip = clip(show_controls(f"{rate.name}: {flops(rate.flops_per_second)}"), 90)
    radius = "6" if rate.kind == "good" else "4"
    dot = '<circle class="{}" cx="{:.2f}%" cy="{:.1f}" r="{}"><title>{}</title></circle>'
    return Markup(dot).format(rate.kind, x, _y(up, rate.flops_per_second), radius, tip)


def _list_rates(rates: Sequence[Rate], roof: float) -> Markup:
    item = Markup("<li><span class='key {}'></span> {}: {}, {:.0f}% of what the peaks allow</li>")
    named = sorted((r for r in rates if r.shown), key=lambda r: -r.flops_per_second)
    further = len(rates) - len(named)
    unnamed: Markup = (
        Markup("<li><span class='key base'></span> {} more candidates</li>").format(further)
        if further
        else Markup("")
    )
    return unnamed + Markup("").join(
        item.format(
            r.kind, clip(show_controls(r.name)), flops(r.flops_per_second), 100 * r.flops_per_second / roof
        )
        for r in named
    )


def _wrap(text: str, inner: Markup, legend: Markup) -> Markup:
    figure = Markup(
        "<figure class=plot><figcaption>Roofline of this machine, by measured peaks</figcaption>"
        '<svg class=plotted width="100%" height="{0}" role=img aria-label="Roofline. {1}"><title>Roofline</title><desc>{1}</desc>{2}</svg>'
        "<p class=keys>{1}</p><ul class=keys>{3}</ul></figure>"
    )
    return figure.format(HEIGHT_PX, text, inner, legend)
