"""The report's two plots, drawn by plotly: speedup against evaluations, and the roofline with measured peaks.

Colours are readable on light and dark paper alike; the script is plotly's own, inlined once.
"""

from __future__ import annotations

from math import log10
from typing import Any

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from ..records.intervals import find_point, is_unknown
from .blocks import Claim, Report
from .wording import baseline_name, interval

INK, GRID = "#8a94a5", "rgba(138,148,165,0.22)"
BLUE, GREEN, RED, AMBER = "#3b82f6", "#22a565", "#e5534b", "#d9912a"


def figures(report: Report) -> list[tuple[str, str]]:
    """(title, HTML) of each plot there is data for."""
    drawn = []
    if any(p.speedup for p in report.progress):
        drawn.append(("Speedup against evaluations", _html(_progress(report))))
    if report.roofline and report.limit is not None:
        drawn.append(("Roofline of this machine (measured peaks)", _html(_roofline(report))))
    return drawn


def script() -> str:
    """Plotly's bundled script, so that the page opens without a network."""
    return f"<script>{get_plotlyjs()}</script>"


def fit() -> str:
    """To go at the end of the page: a plot was drawn before the columns beside it were there."""
    return (
        "<script>document.querySelectorAll('.js-plotly-plot').forEach(p => Plotly.Plots.resize(p))</script>"
    )


def _progress(report: Report) -> go.Figure:
    figure = _figure("evaluation", "speedup over the best baseline")
    ok = [p for p in report.progress if p.speedup]
    failed = [p for p in report.progress if not p.speedup]
    figure.add_scatter(
        x=[p.evaluations for p in ok], y=[p.speedup for p in ok], mode="markers", name="correct",
        marker={"color": BLUE, "size": 7, "opacity": 0.65}, hovertemplate="#%{x}: %{y:.2f}×<extra></extra>",
    )  # fmt: skip
    figure.add_scatter(
        x=[p.evaluations for p in report.progress], y=[p.best or None for p in report.progress], mode="lines",
        name="best so far in the search, for sure", line={"color": BLUE, "width": 2.5, "shape": "hv"}, hoverinfo="skip",
    )  # fmt: skip
    if failed:
        figure.add_scatter(
            x=[p.evaluations for p in failed], y=[0] * len(failed), mode="markers", name="failed",
            marker={"color": RED, "size": 7, "symbol": "x"}, cliponaxis=False,
            hovertemplate="#%{x}: failed<extra></extra>",
        )  # fmt: skip
    if report.claim is not None:
        figure.add_scatter(**_plot_claimed(report, report.claim))
    name = baseline_name(report.claim.speedup.baseline) if report.claim else "the best baseline"
    figure.add_hline(
        y=1, line={"color": INK, "dash": "dot", "width": 1.5}, annotation_text=name, annotation_font_color=INK
    )
    figure.update_yaxes(rangemode="tozero", ticksuffix="×")
    return figure


def _plot_claimed(report: Report, claim: Claim) -> dict[str, Any]:
    """The claimed candidate where it was first judged, at the claimed speedup with its interval: what the
    search measured there is the best of many noisy numbers.
    """
    ratio, middle, last = claim.speedup, find_point(claim.speedup), report.progress[-1].evaluations
    evaluations = next((p.evaluations for p in report.progress if p.candidate_id == claim.candidate_id), last)
    bars = {
        "type": "data", "symmetric": False, "array": [ratio.high - middle],
        "arrayminus": [middle - ratio.low], "color": GREEN, "thickness": 2, "width": 6,
    }  # fmt: skip
    name = "winner, confirmed" if claim.confirmed and claim.win else "no win, confirmed"
    name = "unknown: too noisy" if is_unknown(ratio) and not claim.win else name
    return {
        "x": [evaluations], "y": [middle], "error_y": bars, "mode": "markers",
        "name": f"{name if claim.confirmed else 'best, not confirmed'} (95% interval)",
        "marker": {"color": GREEN, "size": 15, "symbol": "star"},
        "hovertemplate": f"#%{{x}}: {interval(ratio)}<extra></extra>",
    }  # fmt: skip


def _roofline(report: Report) -> go.Figure:
    figure = _figure("FLOP per byte of least traffic", "GFLOP/s")
    limit = report.limit
    assert limit is not None
    ridge = limit.flops_per_second / limit.bytes_per_second
    ridge_flops = limit.flops / limit.least_bytes
    low, high = min(ridge, ridge_flops) / 8, max(ridge, ridge_flops) * 8
    xs = [low, ridge, high]
    roof = [min(limit.flops_per_second, x * limit.bytes_per_second) / 1e9 for x in xs]
    peaks = f"{limit.bytes_per_second / 1e9:.1f} GB/s, {limit.flops_per_second / 1e9:.0f} GFLOP/s"
    figure.add_scatter(
        x=xs, y=roof, mode="lines", name=peaks, line={"color": INK, "width": 2.5}, hoverinfo="skip"
    )
    looks = (("candidate", "candidates", BLUE, "circle", 7), ("baseline", "baselines", AMBER, "diamond", 11))
    for kind, name, colour, symbol, size in (*looks, ("best", "winner", GREEN, "star", 15)):
        points = [p for p in report.roofline if p.kind == kind]
        if points:
            figure.add_scatter(
                x=[p.intensity for p in points], y=[p.flops_per_second / 1e9 for p in points], mode="markers",
                name=name, text=[_plain(p.name) for p in points],
                marker={"color": colour, "symbol": symbol, "size": size, "opacity": 0.9},
                hovertemplate="%{text}: %{y:.3g} GFLOP/s<extra></extra>",
            )  # fmt: skip
    ys = [p.flops_per_second / 1e9 for p in report.roofline] + roof
    figure.update_xaxes(type="log", dtick=1, range=[log10(low), log10(high)])
    figure.update_yaxes(type="log", dtick=1, range=[log10(min(ys)) - 0.2, log10(max(ys)) + 0.2])
    return figure


def _figure(x: str, y: str) -> go.Figure:
    axis = {"gridcolor": GRID, "zeroline": False, "linecolor": GRID, "ticks": "outside", "tickcolor": GRID}
    return go.Figure(
        layout={
            "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "height": 360,
            "template": "none",
            "margin": {"l": 62, "r": 16, "t": 12, "b": 84}, "font": {"color": INK, "size": 13},
            "xaxis": {**axis, "title": {"text": x, "standoff": 8}}, "yaxis": {**axis, "title": {"text": y}},
            "legend": {"orientation": "h", "y": -0.22, "x": 0, "bgcolor": "rgba(0,0,0,0)"},
            "hovermode": "closest",
        }
    )  # fmt: skip


def _html(figure: go.Figure) -> str:
    settings = {"displaylogo": False, "responsive": True, "displayModeBar": False}
    return str(figure.to_html(full_html=False, include_plotlyjs=False, config=settings))


def _plain(text: str) -> str:
    """Plotly reads a little HTML in its labels."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
