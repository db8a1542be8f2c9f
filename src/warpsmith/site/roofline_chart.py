"""The roofline of a kernel: arithmetic a second against arithmetic a byte, below what the machine's measured peaks allow."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from ..records import BaselineTiming, Limit, Timing
from ..report.wording import baseline_name, share
from .charts import WIDTH, wrap_chart
from .safety import clip, show_controls

HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 250, 80, 20, 16, 42  # pixels
MAX_BASELINES = 6
DECADES = 1.2  # of intensity, on either side


def draw_roofline(timing: Timing, limit: Limit, baselines: Sequence[BaselineTiming]) -> Markup:
    """Draw the kernel and the baselines at the intensity of the task: its arithmetic over its least traffic."""
    if not (
        limit.flops > 0
        and limit.least_bytes > 0
        and limit.bytes_per_second > 0
        and limit.flops_per_second > 0
        and timing.median_us > 0
    ):
        return Markup("")
    plot = _Plot(limit, [timing.median_us, *(b.median_us for b in baselines if b.ok and b.median_us > 0)])
    dots = [
        _draw_dot(plot, b.median_us, "other", baseline_name(b.name))
        for b in baselines[:MAX_BASELINES]
        if b.ok and b.median_us > 0
    ]
    dots.append(_draw_dot(plot, timing.median_us, "good", "this kernel"))
    text = (
        f"{plot.intensity:.3g} operations a byte of least traffic, where the roof is {plot.roof(plot.intensity) / 1e9:.4g} GFLOP/s "
        f"({limit.bound}-bound); this kernel reaches {share(limit.seconds / (timing.median_us * 1e-6))} of it. "
        f"Measured peaks: {limit.bytes_per_second / 1e9:.4g} GB/s, {limit.flops_per_second / 1e9:.4g} GFLOP/s."
    )
    return wrap_chart("Roofline", text, HEIGHT, plot.draw_axes() + Markup("").join(dots))


class _Plot:
    """Logarithmic scales around the task's intensity and what was reached."""

    def __init__(self, limit: Limit, times_us: Sequence[float]) -> None:
        self.limit = limit
        self.intensity = limit.flops / limit.least_bytes
        ridge = limit.flops_per_second / limit.bytes_per_second
        self.left = math.log10(min(self.intensity, ridge)) - DECADES
        self.right = math.log10(max(self.intensity, ridge)) + DECADES
        reached = [self.reach(t) for t in times_us]
        self.bottom = math.log10(min([*reached, self.roof(10**self.left)])) - 0.2
        self.top = math.log10(max([*reached, limit.flops_per_second])) + 0.2

    def reach(self, time_us: float) -> float:
        return self.limit.flops / (time_us * 1e-6)

    def roof(self, intensity: float) -> float:
        return min(self.limit.flops_per_second, intensity * self.limit.bytes_per_second)

    def x(self, intensity: float) -> float:
        return LEFT + (math.log10(intensity) - self.left) / (self.right - self.left) * (WIDTH - LEFT - RIGHT)

    def y(self, flops: float) -> float:
        return (
            HEIGHT
            - BOTTOM
            - (math.log10(flops) - self.bottom) / (self.top - self.bottom) * (HEIGHT - TOP - BOTTOM)
        )

    def draw_axes(self) -> Markup:
        parts = [_draw_tick_x(self, 10.0**n) for n in range(math.ceil(self.left), math.floor(self.right) + 1)]
        step = max(1, round((self.top - self.bottom) / 6))
        parts += [
            _draw_tick_y(self, 10.0**n) for n in range(math.ceil(self.bottom), math.floor(self.top) + 1, step)
        ]
        ridge = self.limit.flops_per_second / self.limit.bytes_per_second
        points = [
            (10**self.left, self.roof(10**self.left)),
            (ridge, self.roof(ridge)),
            (10**self.right, self.roof(10**self.right)),
        ]
        path = "M" + "L".join(f"{self.x(i):.1f} {self.y(f):.1f}" for i, f in points)
        parts.append(Markup("<path class=roof d='{}'/>").format(path))
        title = "operations a byte of least traffic; up: operations a second"
        parts.append(
            Markup("<text x='{}' y='{}' text-anchor=end>{}</text>").format(WIDTH - RIGHT, HEIGHT - 6, title)
        )
        return Markup("").join(parts)


def _draw_tick_x(plot: _Plot, value: float) -> Markup:
    shape = Markup(
        "<path class=grid d='M{0:.1f} {1}V{2}'/><text x='{0:.1f}' y='{3}' text-anchor=middle>{4:g}</text>"
    )
    return shape.format(plot.x(value), TOP, HEIGHT - BOTTOM, HEIGHT - BOTTOM + 16, value)


def _draw_tick_y(plot: _Plot, value: float) -> Markup:
    shape = Markup(
        "<path class=grid d='M{0} {1:.1f}H{2}'/><text x='{3}' y='{4:.1f}' text-anchor=end>{5}</text>"
    )
    return shape.format(LEFT, plot.y(value), WIDTH - RIGHT, LEFT - 6, plot.y(value) + 4, _name_rate(value))


def _name_rate(flops: float) -> str:
    for size, unit in ((1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s")):
        if flops >= size:
            return f"{flops / size:g} {unit}"
    return f"{flops:g} FLOP/s"


def _draw_dot(plot: _Plot, time_us: float, kind: str, title: str) -> Markup:
    shape = Markup("<circle class={} cx='{:.1f}' cy='{:.1f}' r='5'><title>{}</title></circle>")
    return shape.format(
        kind, plot.x(plot.intensity), plot.y(plot.reach(time_us)), show_controls(clip(title, 60))
    )
