"""Charts of rows: a name, a bar, and its numbers as text. Names wrap and are never cut; the numbers are the text alternative.

Bars are SVG whose lengths are percents, so that a row fits a phone as well as a wide screen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from ..records import Ratio
from ..records.intervals import find_worth, is_unknown
from ..wording import baseline_name, interval
from .safety import clip, show_controls
from .scales import LEAST, LinearScale, LogScale, make_speedup_scale

Kind = Literal["good", "bad", "even", "base"]
ROW_PX = 18


@dataclass(frozen=True)
class Bar:
    """A row whose bar begins at 0. `low` and `high`: the ends of its interval, where it has one."""

    name: str
    value: float
    text: str
    kind: Kind = "base"
    low: float | None = None
    high: float | None = None


def rate(ratio: Ratio | None) -> Kind:
    """Say by its interval whether a speedup is one."""
    if ratio is None or is_unknown(ratio) or ratio.low <= 1.0 <= ratio.high:
        return "even"
    return "good" if ratio.low > 1.0 else "bad"


def draw_ratios(
    ratios: Sequence[Ratio],
    title: str = "Speedup over each baseline, 95% intervals",
    names: Sequence[str] = (),
) -> Markup:
    """Draw speedups as intervals beside the line of equal speed, with a dot at the low end, which is what is sure.

    `names` stand before them in place of those of the baselines.
    """
    if not ratios:
        return Markup("")
    named = names or [f"over {baseline_name(r.baseline)}" for r in ratios]
    scale = make_speedup_scale([r.low for r in ratios], [r.high for r in ratios if not is_unknown(r)])
    rows = [
        _draw_row(name, interval(r), _draw_interval(r, scale)) for name, r in zip(named, ratios, strict=True)
    ]
    return _wrap(title, [*rows, _draw_axis(scale)])


def draw_bars(
    bars: Sequence[Bar], title: str, mark: float | None = None, mark_text: str = "", high: float | None = None
) -> Markup:
    """Draw bars from 0. `mark`: a value that a line in each row stands at, such as a limit, and what it is. `high`: the end of
    the scale, where it is not the longest bar.
    """
    if not bars:
        return Markup("")
    ends = [v for b in bars for v in (b.value, b.high or 0.0, mark or 0.0) if math.isfinite(v)]
    scale = LinearScale(high or max(ends, default=0.0))
    rows = [_draw_row(b.name, b.text, _draw_bar(b, scale, mark)) for b in bars]
    legend = (
        Markup("<p class=keys><span class=key-mark></span> {}</p>").format(show_controls(mark_text))
        if mark is not None
        else Markup("")
    )
    return _wrap(title, rows, legend)


def draw_parts(parts: Sequence[tuple[str, float, Kind]], title: str) -> Markup:
    """Draw counts as the parts of one bar, with a legend that has the numbers. Parts of 0 are left out."""
    shown = [(name, count, kind) for name, count, kind in parts if count > 0]
    total = sum(count for _, count, _ in shown)
    if not shown:
        return Markup("")
    pieces, start = [], 0.0
    for name, count, kind in shown:
        width = 100.0 * count / total
        piece = (
            '<rect class="fill {0}" x="{1:.2f}%" y="0" width="{2:.2f}%" height="26"><title>{3}</title></rect>'
        )
        pieces.append(
            Markup(piece).format(kind, start, max(width - 0.3, 0.1), show_controls(f"{name}: {count:g}"))
        )
        start += width
    text = "; ".join(f"{count:g} {name}" for name, count, _ in shown)
    drawn = Markup('<svg class=parts width="100%" height="26" role=img aria-label="{}">{}</svg>').format(
        show_controls(text), Markup("").join(pieces)
    )
    items = Markup("").join(
        Markup("<li><span class='key {}'></span> {:g} {}</li>").format(kind, count, show_controls(name))
        for name, count, kind in shown
    )
    return Markup("<figure class=bars><figcaption>{}</figcaption>{}<ul class=keys>{}</ul></figure>").format(
        show_controls(title), drawn, items
    )


def _draw_row(name: str, text: str, drawn: Markup) -> Markup:
    row = Markup(
        '<li><span class=name>{0}</span><svg width="100%" height="{1}" role=img aria-label="{2}">{3}</svg><span class=value>{2}</span></li>'
    )
    return row.format(clip(show_controls(name)), ROW_PX, clip(show_controls(text)), drawn)


def _draw_interval(ratio: Ratio, scale: LogScale) -> Markup:
    low, high = scale.place(max(find_worth(ratio), LEAST)), scale.place(ratio.high)
    shape = Markup(
        '<line class=one x1="{0:.2f}%" x2="{0:.2f}%" y1="0" y2="{1}"/><line class="span {2}" x1="{3:.2f}%" x2="{4:.2f}%" y1="9" y2="9"/>'
        '<circle class={2} cx="{3:.2f}%" cy="9" r="4.5"/>'
    )
    return shape.format(scale.place(1.0), ROW_PX, rate(ratio), low, high)


def _draw_axis(scale: LogScale) -> Markup:
    """Draw the values below the rows. Screen readers have them in each row."""
    ticks = Markup("").join(
        Markup('<text x="{:.2f}%" y="12" text-anchor="middle">{:g}×</text>').format(scale.place(v), v)
        for v in scale.list_ticks()
    )
    axis = '<li class=axis aria-hidden=true><span></span><svg width="100%" height="{}" aria-label="scale">{}</svg><span></span></li>'
    return Markup(axis).format(ROW_PX, ticks)


def _draw_bar(bar: Bar, scale: LinearScale, mark: float | None) -> Markup:
    drawn = Markup('<rect class="fill {}" x="0" y="3" width="{:.2f}%" height="12"/>').format(
        bar.kind, max(scale.place(bar.value), 0.2)
    )
    if bar.low is not None and bar.high is not None:
        whisker = '<line class=whisker x1="{:.2f}%" x2="{:.2f}%" y1="9" y2="9"/>'
        drawn += Markup(whisker).format(scale.place(bar.low), scale.place(bar.high))
    if mark is not None:
        drawn += Markup('<line class=mark x1="{0:.2f}%" x2="{0:.2f}%" y1="0" y2="{1}"/>').format(
            scale.place(mark), ROW_PX
        )
    return drawn


def _wrap(title: str, rows: Sequence[Markup], legend: Markup = Markup("")) -> Markup:
    return Markup("<figure class=bars><figcaption>{}</figcaption><ul>{}</ul>{}</figure>").format(
        show_controls(title), Markup("").join(rows), legend
    )
