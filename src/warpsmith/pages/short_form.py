"""Results as a small fragment of HTML, for notebooks: what was measured with its intervals, and how to see all of it.

A fragment has its own style, which holds for nothing else on the page, takes the notebook's colours, and loads and runs nothing. Where a
notebook leaves styles and charts out, the numbers stay, for they are text.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from ..progress import counted, duration
from ..records import Ratio, Result, RunSummary
from ..records.intervals import is_unknown
from ..wording import baseline_name, interval, share
from .bars import draw_ratios
from .rendering import read_style
from .safety import clip, show_controls

MAX_LINES = 12
COLOURS = (
    "--ink: currentColor; --soft: currentColor; --line: #8886; --card: transparent; --accent: #3b82f6; --good: #1c9a55; --bad: #e5534b; "
    "--warn: #c4861a; max-width: 760px; font-size: 14px;"
)


def render_summary(summary: RunSummary, further: Sequence[str] = ()) -> str:
    """Render what a search came to. `further`: lines below."""
    best = summary.best
    lines = [_describe_claim(summary), summary.reason]
    ratios: Sequence[Ratio] = ()
    if best is not None:
        ratios = best.ratios or tuple(dict.fromkeys((best.speedup, best.speedup_eager)))
        confirmed = "confirmed in fresh processes" if best.confirmed else "not confirmed"
        lines.append(f"{best.label}: {', '.join(best.labels) or 'no labels'}; {confirmed}")
    judged = counted(summary.evaluations, "candidate")
    lines += [f"{judged} judged in {duration(summary.seconds)}" if summary.evaluations else ""]
    lines += [f"left as it is: {line}" for line in summary.left]
    command = ["warpsmith", "report", summary.run_id, "--format", "html", "--out", "report.html"]
    lines += [*further, f"all of it: {shlex.join(command)}" if summary.run_id else ""]
    return render_short(summary.task, summary.status, lines, draw_ratios(ratios))


def render_result(result: Result) -> str:
    """Render what the judge said of one kernel."""
    timing, verdict = result.timing, result.verdict
    best = result.speedup if result.status == "ok" else None
    lines = [result.reason]
    if best is not None and timing is not None:
        limit = "" if is_unknown(best) else f", {share(timing.limit_share)} of the machine's limit"
        lines.append(f"{interval(best)} over {baseline_name(best.baseline)}{limit}")
    if verdict is not None:
        passed = sum(c.ok for c in verdict.checks)
        lines.append(
            f"{passed} of {counted(len(verdict.checks), 'check')} passed; {', '.join(verdict.labels) or 'no labels'}"
        )
    ratios = timing.ratios if timing is not None and best is not None else ()
    return render_short(f"kernel for {result.target}", result.status, lines, draw_ratios(ratios))


def render_short(title: str, status: str, lines: Iterable[str], chart: Markup = Markup("")) -> str:
    """Render a fragment: a title with a status, a line each, a chart. Empty lines are left out."""
    shown = [show_controls(clip(line, 600)) for line in lines if line]
    cut = len(shown) - MAX_LINES
    if cut > 0:
        shown[MAX_LINES:] = [f"{cut} more lines"]
    items = Markup("").join(Markup("<div>{}</div>").format(line) for line in shown)
    fragment = Markup(
        "<div class=warpsmith><style>.warpsmith {{ {} {} }}</style><div><b>{}</b> <span>{}</span></div>{}{}</div>"
    )
    style = Markup(read_style("charts"))
    return str(
        fragment.format(
            Markup(COLOURS), style, clip(show_controls(title)), show_controls(status), items, chart
        )
    )


def _describe_claim(summary: RunSummary) -> str:
    best = summary.best
    if best is None:
        return "nothing faster was found"
    limit = "" if is_unknown(best.speedup) else f", {share(best.limit_share)} of the machine's limit"
    where = f" on {summary.hardware}" if summary.hardware else ""
    return f"{interval(best.speedup)} over {baseline_name(best.speedup.baseline)}{where}{limit}"
