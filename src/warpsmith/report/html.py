"""A report as one self-contained HTML file that opens offline: style, plots and plotly's bundled script
are inlined.

Everything that comes from the archive is escaped, because an archive can hold another machine's text.
"""

from __future__ import annotations

from html import escape

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CppLexer

from ..progress import counted
from ..records.intervals import is_unknown
from . import chain, plots, tables
from .blocks import Report, Source
from .fragments import card, grid_html, style
from .grids import MAIN, lines
from .lineage_svg import lineage_svg
from .wording import interval, microseconds, share, speed


def render_html(report: Report) -> str:
    """The page. It loads nothing: the content security policy forbids it."""
    drawn = plots.figures(report)
    body = "\n".join(
        [_header(report), _facts(report), *_plots(drawn),
         card(grid_html(MAIN[0](report))), _sources(report),
         _evidence(report), _chain(report), _lineage(report),
         *(card(grid_html(make(report))) for make in MAIN[1:]), *_pairs(report), _commands(report)]
    )  # fmt: skip
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline' 'unsafe-eval'; img-src data: blob:; font-src data:\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(report.task)}: {escape(report.status)} · warpsmith</title>\n"
        f"<style>\n{style()}\n</style>\n{plots.script() if drawn else ''}\n</head>\n<body>\n<main>\n{body}\n"
        f"{plots.fit() if drawn else ''}<footer>warpsmith {escape(report.environment.warpsmith)} · "
        f"run {escape(report.run_id)} · "
        f"{escape(report.started_at[:19])} UTC</footer>\n</main>\n</body>\n</html>\n"
    )


def _header(report: Report) -> str:
    claim, notes = report.claim, "".join(f'<div class="note">{escape(w)}</div>' for w in report.warnings)
    badge = f'<span class="badge {escape(report.status)}">{escape(report.status)}</span>'
    title = f"<h1>{escape(report.task)}{badge}</h1>"
    if claim is None:
        hero = '<div class="big none">no valid result</div>'
        say = f"<p>{escape(report.reason)}</p>"
    else:
        unknown = " none" if is_unknown(claim.speedup) else ""
        hero = f'<div class="big{unknown}">{escape(speed(claim.speedup))}</div>'
        chips = "".join(f'<span class="chip">{escape(text)}</span>' for text in claim.labels)
        eager = f'<p class="soft">Against eager: {escape(claim.eager_text)}.</p>' if claim.eager_text else ""
        why = f"<p>{escape(report.reason)}</p>" if report.reason else ""
        say = f"<p><b>{escape(claim.text)}</b></p>{eager}{why}<p>{chips}</p>"
    under = f'<p class="soft">{escape(report.target)} target on {escape(report.hardware)}</p>'
    return f'{title}{under}<div class="card hero">{hero}<div class="say">{say}</div></div>{notes}'


def _facts(report: Report) -> str:
    claim, facts = report.claim, []
    if claim is not None and not is_unknown(claim.speedup):
        facts += [
            ("median time", microseconds(claim.median_us)),
            ("of the machine's limit", share(claim.limit_share)),
        ]
    if claim is not None:
        facts.append(("confirmed in fresh processes", "yes" if claim.confirmed else "no"))
    facts += [("candidates judged", str(report.evaluations)), ("wall time", f"{report.seconds:.0f} s")]
    cells = "".join(f'<div class="fact"><b>{escape(v)}</b><span>{escape(k)}</span></div>' for k, v in facts)
    fact_line = f"Outcomes: {tables.stages(report)}. Time: {tables.wall(report)}."
    fact_line += f" Stopped: {report.stopped}." if report.stopped else ""
    fact_line += "".join(f" {line[0].upper() + line[1:]}." for line in lines(report))
    return f'<div class="facts">{cells}</div><p class="soft">{escape(fact_line)}</p>'


def _plots(drawn: list[tuple[str, str]]) -> list[str]:
    if not drawn:
        return []
    return ['<div class="two">' + "".join(card(f"<h2>{escape(t)}</h2>{h}") for t, h in drawn) + "</div>"]


def _pairs(report: Report) -> list[str]:
    grids = [
        grid_html(tables.checks(report)),
        grid_html(tables.environment(report)),
        grid_html(tables.mutants(report)),
    ]
    return ['<div class="two">' + "".join(card(g) for g in grids if g) + "</div>"]


def _sources(report: Report) -> str:
    if not report.sources:
        return ""
    return card("<h2>Winning source</h2>" + "".join(_source(source) for source in report.sources))


def _source(source: Source) -> str:
    values = "".join(f'<span class="chip">{escape(k)} = {v}</span>' for k, v in source.values.items())
    needs = "".join(f'<span class="chip">requires {escape(text)}</span>' for text in source.requires)
    nodes = f"{counted(len(source.nodes), 'graph node')}: {', '.join(source.nodes)}"
    flags = " ".join(source.compiler_flags)
    code = highlight(source.source, CppLexer(), HtmlFormatter(nowrap=True))
    return (
        f"<p><b>{escape(source.title)}</b> <span class=soft>covers {escape(nodes)}</span></p>"
        f"<p>{values}{needs}</p>"
        + (f"<p class=soft>built with {escape(flags)}</p>" if flags else "")
        + f'<pre class="hl">{code}</pre>'
    )


def _evidence(report: Report) -> str:
    steps = []
    for step in report.evidence:
        facts = [f"{step.operator} by {step.agent or 'the search'} ({step.model})"]
        facts += [f"{step.bottleneck}-bound"] if step.bottleneck else []
        facts += [f"expected {step.expected_gain:.2f}×"] if step.expected_gain else []
        facts += (
            [f"measured {interval(step.measured)} over the best baseline"] if step.measured else [step.status]
        )
        lines = "".join(f"<li>{escape(text)}</li>" for text in (step.reason, *step.evidence) if text)
        about = escape(" · ".join(f for f in facts if f))
        steps.append(f"<li><b>{escape(step.label)}</b> <span class=soft>{about}</span><ul>{lines}</ul></li>")
    return card(f"<h2>How the winner came about</h2><ol class=chain>{''.join(steps)}</ol>") if steps else ""


def _chain(report: Report) -> str:
    steps = []
    for step in report.chain:
        items = "".join(
            f"<li><b>{escape(label)}</b> {escape(text)}</li>" for label, text in chain.lines(step)
        )
        steps.append(f"<li><b>{escape(chain.heading(step))}</b><ul>{items}</ul></li>")
    return card(f"<h2>{chain.TITLE}</h2><ol class=chain>{''.join(steps)}</ol>") if steps else ""


def _lineage(report: Report) -> str:
    if not report.lineage:
        return ""
    return card(
        f'<h2>Lineage</h2><div class="scroll">{lineage_svg(report.lineage)}</div>{_render_comparison(report)}'
    )


def _render_comparison(report: Report) -> str:
    return f'<p class="soft">{escape(tables.describe_comparison(report))}</p>'


def _commands(report: Report) -> str:
    return card(f"<h2>Commands</h2><pre>{escape(chr(10).join(report.commands))}</pre>")
