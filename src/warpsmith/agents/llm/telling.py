"""Records as text for a model: the graph, regions, machine, what was measured, what was tried. Bounded, and the same every time."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from ...facts import Facts
from ...records import Graph, Limit, Node, Ratio, Region, RegionProfile, Result, Task, TensorSpec, Unit
from ...records.intervals import describe_speed
from ..base import NOTE, Attempt, Situation
from ..failures import failure_of
from ..findings import findings, summary
from .prompts import bullets, fence

MAX_SOURCE_CHARACTERS = 16_000  # characters of a task's source
MAX_NODES = 160
MAX_HISTORY = 40
TARGET_SHARE = 0.9  # of the time there is, which a question asks for
BUSY_FACTOR = 1.5  # between the ends of an interval, from which on it says little
HOT = 8  # nodes whose times are told


def task_text(task: Task) -> str:
    """The module's own source; what came without one is told by its graph alone."""
    text = task.source.text[:MAX_SOURCE_CHARACTERS]
    return fence(text, "python") if text else ""


def spec_text(spec: TensorSpec) -> str:
    strided = "" if spec.contiguous else f" strides {list(spec.stride)}"
    return f"{spec.dtype}{list(spec.shape)}{strided}"


def graph_text(graph: Graph) -> str:
    lines = [f"{i.name}: {i.role} {spec_text(i.spec)}" for i in graph.inputs]
    lines += [_node_text(node) for node in graph.nodes[:MAX_NODES]]
    if len(graph.nodes) > MAX_NODES:
        lines.append(f"… and {len(graph.nodes) - MAX_NODES} more nodes")
    lines.append("return " + ", ".join(o.value for o in graph.outputs if o.value is not None))
    return fence("\n".join(lines))


def _node_text(node: Node) -> str:
    args = [_argument(a) for a in node.args] + [f"{k}={_argument(v)}" for k, v in node.kwargs.items()]
    results = ", ".join(f"{v.name}: {spec_text(v.spec)}" for v in node.outputs if v is not None)
    return f"{node.name} = {node.op.removeprefix('aten.')}({', '.join(args)}) -> {results}"


def _argument(arg: Any) -> str:
    if isinstance(arg, dict):
        return str(next(iter(arg.values()), ""))
    if isinstance(arg, list | tuple):
        return "[" + ", ".join(_argument(a) for a in arg) + "]"
    return json.dumps(arg)


def region_text(graph: Graph, region: Region) -> str:
    """Describe what a unit for a region reads, computes and writes, in ABI order."""
    lines = [f"in{i} = {name}: {spec_text(graph.specs[name])}" for i, name in enumerate(region.inputs)]
    lines += [_node_text(graph.by_name[name]) for name in region.nodes]
    lines += [f"out{i} = {name}: {spec_text(graph.specs[name])}" for i, name in enumerate(region.outputs)]
    return fence("\n".join(lines))


def regions_text(graph: Graph, regions: Sequence[Region], facts: Facts) -> str:
    """The regions on offer, numbered from 0."""
    lines = []
    for number, region in enumerate(regions):
        ins = ", ".join(spec_text(graph.specs[v]) for v in region.inputs)
        outs = ", ".join(spec_text(graph.specs[v]) for v in region.outputs)
        share = _share_time(facts, region.nodes)
        nodes = " ".join(region.nodes[:24]) + (" …" if len(region.nodes) > 24 else "")
        lines.append(f"{number}: nodes {nodes} | in: {ins} | out: {outs}{share}")
    return bullets(lines)


def time_text(graph: Graph, facts: Facts, limit: Limit) -> str:
    """Describe where the reference is on the roofline, and where its time goes."""
    share = limit.seconds * 1e6 / facts.total_us if facts.total_us else 0.0
    lines = [
        f"the reference takes {facts.total_us:.0f} us with the best baseline; the speed-of-light limit is "
        f"{limit.seconds * 1e6:.0f} us ({limit.bound}-bound: {limit.least_bytes:,} bytes at least, {limit.flops:,} FLOP), "
        f"so it is at {share:.0%} of the limit"
    ]
    hot = sorted(facts.node_us.items(), key=lambda item: (-item[1], item[0]))[:HOT]
    lines += [
        f"{name} ({graph.by_name[name].op}){_share_time(facts, [name])}"
        for name, _ in hot
        if name in graph.by_name
    ]
    return bullets(lines)


def _share_time(facts: Facts, nodes: Sequence[str]) -> str:
    """Tell a share, not microseconds: operations one by one, called eagerly, take another time than the baseline as a whole."""
    total = sum(facts.node_us.values())
    us = sum(facts.node_us.get(name, 0.0) for name in nodes)
    return f" | {us / total:.0%} of the eager time" if total > 0 else ""


def goal_text(situation: Situation) -> str:
    """The time to reach, over what there is, within the limit, and what is left to spend."""
    best, facts, limit_us = situation.best, situation.facts, situation.limit.seconds * 1e6
    timing = best.result.timing if best is not None and not best.screened else None
    now_us = min(facts.total_us or math.inf, timing.median_us if timing is not None else math.inf)
    if not 0 < now_us < math.inf:
        return ""
    whose = "the best candidate" if timing is not None and timing.median_us <= now_us else "the best baseline"
    target_us = max(TARGET_SHARE * now_us, limit_us)
    aim = f"Target: at most {target_us:.3g} us a call, at least {1 - target_us / now_us:.0%} less than the {now_us:.3g} us of {whose}."
    return f"{aim} Left to spend: {situation.budget_left}." if situation.budget_left else aim


def history_text(attempts: Sequence[Attempt], region: Region | None = None) -> str:
    """One line an attempt, the latest last; those that touch `region` only, where it is given."""
    attempts_here = [
        a for a in attempts if region is None or any(_touches(u, region) for u in a.candidate.units)
    ]
    skipped = (
        [f"({len(attempts_here) - MAX_HISTORY} earlier ones)"] if len(attempts_here) > MAX_HISTORY else []
    )
    return bullets([*skipped, *(_attempt_text(a) for a in attempts_here[-MAX_HISTORY:])])


def _touches(unit: Unit, region: Region) -> bool:
    return bool(set(unit.region.nodes) & set(region.nodes))


def _attempt_text(attempt: Attempt) -> str:
    lineage = attempt.candidate.lineage
    techniques = "; ".join(f"{u.technique or u.family} {_values(u)}".strip() for u in attempt.candidate.units)
    note = f" ({lineage.reason[lineage.reason.index(NOTE) :]})" if NOTE in lineage.reason else ""
    return f"round {lineage.round} {lineage.operator}: {techniques}: {describe_outcome(attempt)}{note}"


def describe_outcome(attempt: Attempt) -> str:
    """Say how fast a candidate is, what it promises where it was only screened, or why it failed."""
    ratio = attempt.ratio
    if ratio is None or attempt.speedup <= 0:
        return failure_of(attempt.result)
    if attempt.screened:
        return f"right where screening looked, an estimate of {describe_speed(ratio)} of {ratio.baseline}"
    timing = attempt.result.timing
    us = f"{timing.median_us:.3g} us, " if timing is not None else ""
    return f"correct, {us}{describe_speed(ratio)} of {ratio.baseline}{_interval_text(ratio)}"


def _interval_text(ratio: Ratio) -> str:
    """The interval, and a word where it says little."""
    unsure = ", unsure: the machine was busy" if ratio.high > BUSY_FACTOR * max(ratio.low, 1e-9) else ""
    return f" ({ratio.low:.2f} to {ratio.high:.2f}{unsure})"


def _values(unit: Unit) -> str:
    return " ".join(f"{name}={value}" for name, value in unit.values.items())


def profile_text(attempt: Attempt | None) -> str:
    """Describe what was measured of the best candidate's units."""
    if attempt is None or attempt.result.profile is None:
        return ""
    return bullets([_describe_seen(profile) for profile in attempt.result.profile.regions])


def unit_profile_text(attempt: Attempt, unit: Unit, parent: Attempt | None = None) -> str:
    """Describe what was measured of one unit, what its build says, and how both differ from its parent's; empty where nobody looked."""
    profile = attempt.find_profile(unit)
    lines = [_describe_seen(profile)] if profile is not None else []
    lines += describe_build(attempt.result, unit)
    before = find_same_region(parent, unit) if parent is not None else None
    if parent is not None and before is not None:
        lines += _describe_change(attempt, unit, parent, before)
    return bullets(lines)


def describe_build(result: Result, unit: Unit) -> list[str]:
    """Registers, spills and shared memory of each GPU kernel of a unit, at the main shapes."""
    kernels = (
        k for b in result.builds if b.unit_key == unit.code_key and b.variant == "main" for k in b.kernels
    )
    lines: list[str] = []
    for kernel in kernels:
        spilled = kernel.spill_store_bytes + kernel.spill_load_bytes
        spills = f", SPILLS {spilled} bytes a thread" if spilled else ", no spills"
        shared = f", {kernel.shared_bytes:,} bytes of static shared memory" if kernel.shared_bytes else ""
        lines.append(f"kernel {kernel.name}: {kernel.registers} registers a thread{spills}{shared}")
    return list(dict.fromkeys(lines))


def find_parent(situation: Situation, attempt: Attempt) -> Attempt | None:
    """The first parent of a candidate, where this run judged it."""
    ids = attempt.candidate.lineage.parents[:1]
    return next((a for a in situation.attempts if a.candidate.id in ids), None)


def find_same_region(attempt: Attempt, unit: Unit) -> Unit | None:
    return next((u for u in attempt.candidate.units if u.region.id == unit.region.id), None)


def _describe_change(attempt: Attempt, unit: Unit, parent: Attempt, before: Unit) -> list[str]:
    """Tell what became of the unit's time and build since its parent; nothing where the unit is the same."""
    if before.code_key == unit.code_key:
        return []
    current, earlier = attempt.find_profile(unit), parent.find_profile(before)
    changes: list[str] = []
    if current is not None and earlier is not None:
        changes.append(f"{earlier.seconds * 1e6:.3g} to {current.seconds * 1e6:.3g} us alone")
        changes.append(f"{earlier.limit_share:.0%} to {current.limit_share:.0%} of its limit")
    builds = describe_build(parent.result, before)
    if builds and builds != describe_build(attempt.result, unit):
        changes.append(f"its parent had {'; '.join(builds)}")
    return [f"against its parent: {', '.join(changes)}"] if changes else []


def standing_text(attempt: Attempt, unit: Unit) -> str:
    """Describe what a judged unit is, and how fast the candidate that it is in."""
    name = f"{unit.technique or unit.family} {_values(unit)}".strip()
    ratio, timing = attempt.result.speedup, attempt.result.timing
    us = timing.unit_us.get(unit.region.id) if timing is not None else None
    alone = f"{us:.0f} us alone, " if us is not None else ""
    if attempt.screened:
        return f"- {name}: {alone}{describe_outcome(attempt)}"
    if ratio is None or timing is None:
        return f"- {name}: not timed"
    standing = f"in a candidate at {describe_speed(ratio)} of {ratio.baseline}{_interval_text(ratio)}"
    return f"- {name}: {alone}{standing}"


def _describe_seen(seen: RegionProfile) -> str:
    remarks = "; ".join(f.text for f in findings(seen))
    return f"{seen.technique or seen.family}: {summary(seen)}" + (f" → {remarks}" if remarks else "")


def best_text(situation: Situation) -> str:
    best = situation.best
    if best is None or best.result.speedup is None:
        return ""
    ratio = best.result.speedup
    share = best.result.timing.limit_share if best.result.timing is not None else 0.0
    return f"{describe_speed(ratio)} over {ratio.baseline}{_interval_text(ratio)}, {share:.0%} of the limit."
