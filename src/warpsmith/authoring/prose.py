"""Sheets as text for people and agents: markdown for a prompt folder, plain lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from ..knowledge.index import Passage
from ..records import Ratio
from ..report.wording import microseconds
from .sheets import AttemptRow, BoardRow, Operand, RegionSheet, TaskSheet, VerdictSheet


def graph_md(sheet: TaskSheet) -> str:
    """The graph, other shapes, the roofline and the proposed regions of a task."""
    lines = [f"# {sheet.name}: the graph", "", "```", *sheet.graph, "```", ""]
    if sheet.note:
        lines += [f"Note: {sheet.note}", ""]
    if sheet.variants:
        lines += ["A unit must be right at these shapes, too:", "", *(f"- {v}" for v in sheet.variants), ""]
    lines += ["## Limits and baselines", "", *(f"- {line}" for line in roofline_lines(sheet)), ""]
    lines += ["## Proposed regions", "", *(region_line(r) for r in sheet.regions), ""]
    lines += [
        "Any other connected set of nodes is a region, too, as long as no value leaves it and comes back."
    ]
    return "\n".join(lines) + "\n"


def roofline_lines(sheet: TaskSheet) -> list[str]:
    lines = [f"{sheet.flops:,} FLOPs, at least {sheet.least_bytes:,} bytes moved"]
    if sheet.limit_us is not None:
        lines.append(
            f"speed-of-light limit on {sheet.hardware}: {microseconds(sheet.limit_us)}, {sheet.bound}-bound"
        )
    lines += [f"baseline {name}: {microseconds(us)}" for name, us in sheet.baselines.items()]
    if not sheet.baselines:
        lines.append("the baselines were not timed on this machine yet")
    return lines


def region_line(region: RegionSheet) -> str:
    limit = f"; limit alone {microseconds(region.limit_us)}" if region.limit_us is not None else ""
    return f"{region.number}. `{', '.join(region.nodes)}`: {region.flops:,} FLOPs, {region.least_bytes:,} bytes{limit}"


def region_md(region: RegionSheet) -> str:
    """One region: operands in the order of the ABI, limits, what the expert knows."""
    number = f"Region {region.number}" if region.number else "The region"
    lines = [f"# {number}", "", f"Nodes: `{', '.join(region.nodes)}` ({', '.join(region.ops)})", ""]
    lines += ["| parameter | value | type | strides | is |", "|---|---|---|---|---|"]
    lines += [_operand_row(o) for o in (*region.inputs, *region.outputs)]
    lines += ["", f"{region.flops:,} FLOPs, at least {region.least_bytes:,} bytes moved."]
    if region.limit_us is not None:
        lines.append(f"Speed-of-light limit alone: {microseconds(region.limit_us)}, {region.bound}-bound.")
    lines += ["", f"Signature: `{region.signature}`", ""]
    if region.techniques:
        lines += [
            "Techniques that the built-in expert knows for it:",
            "",
            *(f"- {t}" for t in region.techniques),
        ]
    return "\n".join(lines).rstrip() + "\n"


def history_md(rows: Sequence[AttemptRow]) -> str:
    lines = ["# What was judged so far, newest first", ""]
    lines += [f"- {attempt_line(row)}" for row in rows] or ["Nothing yet."]
    return "\n".join(lines) + "\n"


def attempt_line(row: AttemptRow) -> str:
    where = "" if row.here else ", on another machine"
    if row.speedup is None:
        return f"{row.candidate} {row.technique} by {row.author}: {row.status}{where}: {row.reason}"
    kind = "confirmed" if row.confirmed else "correct"
    limit = f"{row.limit_share:.0%} of the limit"
    why = f"; {row.reason}" if row.reason else ""
    return f"{row.candidate} {row.technique} by {row.author}: {kind}{where}, {ratio_text(row.speedup)}, {limit}{why}"


def knowledge_md(passages: Sequence[Passage]) -> str:
    lines = ["# Knowledge that may help", ""]
    for passage in passages:
        lines += [f"## {passage.title}", "", passage.text.strip(), ""]
    return "\n".join(lines).rstrip() + ("\n" if passages else "\n\nNothing was found for this region.\n")


def board_lines(rows: Sequence[BoardRow]) -> list[str]:
    """One line a row; the hardware is always there."""
    return [
        f"{r.rank}. {ratio_text(r.speedup)}, {microseconds(r.median_us)}, {r.limit_share:.0%} of the limit, "
        f"{'confirmed' if r.confirmed else 'not confirmed'}: {r.technique} by {r.author} "
        f"({r.candidate}) on {r.hardware}{f'; {r.note}' if r.note else ''}"
        for r in rows
    ]


def verdict_lines(sheet: VerdictSheet) -> list[str]:
    """A verdict for people: what it is, the evidence, every speedup with what qualifies it."""
    head = "correct" if sheet.correct else sheet.status
    win = ", a win" if sheet.win else ""
    lines = [f"{sheet.task}: {head}{win}: candidate {sheet.candidate} by {sheet.author}"]
    lines += [f"  {sheet.reason}"] if sheet.reason else []
    lines += [f"  {line}" for line in sheet.evidence]
    for ratio in sheet.speedup:
        lines.append(f"  {ratio_text(ratio)}")
    if sheet.median_us is not None:
        confirmed = "confirmed in fresh processes" if sheet.confirmed else "not confirmed"
        share = f"{sheet.limit_share:.0%} of the speed-of-light limit"
        lines.append(f"  {microseconds(sheet.median_us)}, {share}; {confirmed}")
    lines += [f"  {', '.join(sheet.labels)}"] if sheet.labels else []
    lines += [f"  note: {note}" for note in sheet.notes]
    lines.append(f"  on {sheet.hardware}" + (f"; warpsmith report {sheet.run}" if sheet.run else ""))
    return lines


def ratio_text(ratio: Ratio) -> str:
    return f"{ratio.median:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}] over {ratio.baseline}"


def _operand_row(o: Operand) -> str:
    shape = f"{o.dtype}[{','.join(map(str, o.shape))}]"
    return f"| `{o.name}` | `{o.value}` | {shape} | ({','.join(map(str, o.stride))}) | {o.role} |"
