"""The charts of a run's report: times and speedups with their intervals, attempts in order, candidates by stage, the roofline.

In: a `Report`. Out: HTML with SVG in it, empty where there is nothing to draw. No bare median stands for a candidate: dots stand at the
low end of an interval, and a claim that is unknown has no point of its own.
"""

from __future__ import annotations

from markupsafe import Markup

from ..pages.bars import Bar, Kind, draw_bars, draw_parts, draw_ratios, rate
from ..pages.charts import Point, choose_points, draw_attempts
from ..pages.roofline_chart import Rate, draw_roofline
from ..records import Ratio
from ..records.intervals import is_unknown
from ..wording import baseline_name, interval, microseconds, share
from .blocks import Attempt, Claim, Report

STAGE_KINDS: dict[str, Kind] = {"ok": "good", "screened": "base"}  # the others are failures


def draw_times(report: Report) -> Markup:
    """Draw the time of a call of each baseline and of the winner, with the limit as a line."""
    bars = []
    for row in report.baselines:
        b = row.timing
        if b.ok:
            name = baseline_name(b.name) + (", the best baseline" if row.best else "")
            text = f"{microseconds(b.median_us)} [{microseconds(b.low_us)}, {microseconds(b.high_us)}]"
            bars.append(Bar(name, b.median_us, text, "base", b.low_us, b.high_us))
    claim = report.claim
    if claim is not None:
        is_noisy = is_unknown(claim.speedup)
        text = f"[{microseconds(claim.low_us)}, {microseconds(claim.high_us)}]"
        text = f"unknown {text}" if is_noisy else f"{microseconds(claim.median_us)} {text}"
        value = claim.low_us if is_noisy else claim.median_us
        bars.append(
            Bar(f"warpsmith: {claim.label}", value, text, rate(claim.speedup), claim.low_us, claim.high_us)
        )
    limit_us = report.limit.seconds * 1e6 if report.limit is not None else None
    mark = f"limit of this machine: {microseconds(limit_us)}" if limit_us is not None else ""
    return draw_bars(bars, "Time of a call, with its 95% interval: shorter is faster", limit_us, mark)


def draw_speedups(report: Report) -> Markup:
    return draw_ratios([row.speedup for row in report.baselines if row.speedup is not None])


def list_points(report: Report) -> list[Point]:
    """List what the search judged, in order. A candidate that was confirmed stands at its confirmed interval, for what the search
    measured is the best of many noisy numbers.
    """
    confirmed = {a.candidate_id: a for a in report.attempts if a.confirmed and a.status == "ok"}
    judged = [a for a in report.attempts if a.kind != "confirmation" and a.status != "screened"]
    return [_make_point(a, confirmed.get(a.candidate_id, a), report.claim) for a in judged]


def draw_progress(report: Report) -> Markup:
    points = list_points(report)
    if all(p.ratio is None for p in points):
        return Markup("")
    return draw_attempts(choose_points(points), len(points), describe_claimed(report))


def describe_claimed(report: Report) -> str:
    """Say what the large dot is."""
    claim = report.claim
    if claim is None:
        return ""
    name = "winner, confirmed" if claim.confirmed and claim.win else "no win, confirmed"
    name = "unknown: too noisy" if is_unknown(claim.speedup) and not claim.win else name
    name = name if claim.confirmed else "best, not confirmed"
    return f"Large dot: {name}, {interval(claim.speedup)} over {baseline_name(claim.speedup.baseline)}."


def draw_stages(report: Report) -> Markup:
    """Draw what became of the candidates, and where the time went."""
    parts = [(status, float(n), STAGE_KINDS.get(status, "bad")) for status, n in report.stages.items()]
    seconds = [Bar(name, s, f"{s:.1f} s") for name, s in report.seconds_by_stage.items() if s > 0]
    return draw_parts(parts, "Candidates by outcome") + draw_bars(seconds, "Seconds by stage")


def draw_shares(report: Report) -> Markup:
    """Draw which share of the machine's limit each reaches."""
    bars = [
        Bar(baseline_name(r.timing.name), r.timing.limit_share, share(r.timing.limit_share))
        for r in report.baselines
        if r.timing.ok and r.timing.limit_share
    ]
    claim = report.claim
    if claim is not None and not is_unknown(claim.speedup):
        name = f"warpsmith: {claim.label}"
        bars.append(Bar(name, claim.limit_share, share(claim.limit_share), rate(claim.speedup)))
    highest = max((b.value for b in bars), default=1.0)
    return draw_bars(bars, "Share of the machine's limit", 1.0, "the limit", max(1.0, highest))


def draw_rates(report: Report) -> Markup:
    """Draw the roofline."""
    limit, kinds = report.limit, {"baseline": "even", "candidate": "base", "best": "good"}
    if limit is None or not report.roofline:
        return Markup("")
    is_noisy = report.claim is not None and is_unknown(report.claim.speedup)
    rates = [
        Rate(p.name, p.flops_per_second, kinds[p.kind], p.kind != "candidate")  # type: ignore[arg-type]
        for p in report.roofline
        if not (is_noisy and p.kind == "best")
    ]
    return draw_roofline(rates, report.roofline[0].intensity, limit.bytes_per_second, limit.flops_per_second)


def _make_point(attempt: Attempt, shown: Attempt, claim: Claim | None) -> Point:
    ratio: Ratio | None = shown.speedup if shown.status == "ok" else None
    claimed = claim is not None and attempt.candidate_id == claim.candidate_id
    if claimed and claim is not None:
        ratio = claim.speedup
    return Point(attempt.number, attempt.label, attempt.status, ratio, shown.confirmed, claimed)
