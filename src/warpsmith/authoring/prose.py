"""Views as text for people and agents: markdown for a prompt folder, plain lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from ..knowledge.index import Passage
from ..records import Ratio
from ..records.intervals import describe_ratio
from ..wording import microseconds
from .author_views import AttemptRow, BoardRow, Operand, RegionView, TaskView, VerdictView


def graph_md(view: TaskView) -> str:
    """The graph, other shapes, the roofline and the proposed regions of a task."""
    lines = [f"# {view.name}: the graph", "", "```", *view.graph, "```", ""]
    if view.note:
        lines += [f"Note: {view.note}", ""]
    if view.variants:
        lines += ["A unit must be right at these shapes, too:", "", *(f"- {v}" for v in view.variants), ""]
    lines += ["## Limits and baselines", "", *(f"- {line}" for line in roofline_lines(view)), ""]
    lines += ["## Proposed regions", "", *(region_line(r) for r in view.regions), ""]
    lines += [
        "Any other connected set of nodes is a region, too, as long as no value leaves it and comes back."
    ]
    return "\n".join(lines) + "\n"


def roofline_lines(view: TaskView) -> list[str]:
    lines = [f"{view.flops:,} FLOPs, at least {view.least_bytes:,} bytes moved"]
    if view.limit_us is not None:
        lines.append(
            f"speed-of-light limit on {view.hardware}: {microseconds(view.limit_us)}, {view.bound}-bound"
            + (f" ({view.peaks.text})" if view.peaks is not None else "")
        )
    lines += [f"baseline {name}: {microseconds(us)}" for name, us in view.baselines.items()]
    if not view.baselines:
        lines.append("the baselines were not timed on this machine yet")
    return lines


def region_line(region: RegionView) -> str:
    limit = f"; limit alone {microseconds(region.limit_us)}" if region.limit_us is not None else ""
    return f"{region.number}. `{', '.join(region.nodes)}`: {region.flops:,} FLOPs, {region.least_bytes:,} bytes{limit}"


def region_md(region: RegionView) -> str:
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


def verdict_lines(view: VerdictView) -> list[str]:
    """A verdict for people: what it is, the evidence, every speedup with what qualifies it."""
    head = "correct" if view.correct else view.status
    win = ", a win" if view.win else ""
    lines = [f"{view.task}: {head}{win}: candidate {view.candidate} by {view.author}"]
    lines += [f"  {view.reason}"] if view.reason else []
    lines += [f"  {line}" for line in view.evidence]
    for ratio in view.speedup:
        lines.append(f"  {ratio_text(ratio)}")
    if view.median_us is not None:
        confirmed = "confirmed in fresh processes" if view.confirmed else "not confirmed"
        share = f"{view.limit_share:.0%} of the speed-of-light limit"
        lines.append(f"  {microseconds(view.median_us)}, {share}; {confirmed}")
    lines += [f"  {', '.join(view.labels)}"] if view.labels else []
    lines += [f"  note: {note}" for note in view.notes]
    lines.append(f"  on {view.hardware}" + (f"; warpsmith report {view.run}" if view.run else ""))
    return lines


def ratio_text(ratio: Ratio) -> str:
    return f"{describe_ratio(ratio)} over {ratio.baseline}"


def _operand_row(o: Operand) -> str:
    shape = f"{o.dtype}[{','.join(map(str, o.shape))}]"
    return f"| `{o.name}` | `{o.value}` | {shape} | ({','.join(map(str, o.stride))}) | {o.role} |"
