"""Records as text for a model: the graph, regions, machine, what was measured, what was tried. Bounded, and the same every time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...facts import Facts
from ...hardware import SMEM_KIB_PER_BLOCK
from ...records import Graph, Limit, Node, Region, RegionProfile, Task, TensorSpec, Unit
from ...records.intervals import describe_speed
from ..base import Attempt, Situation
from ..failures import failure_of
from ..findings import findings, summary
from .prompts import bullets, fence

MAX_SOURCE_CHARACTERS = 16_000  # characters of a task's source
MAX_NODES = 160
MAX_HISTORY = 40
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
        us = sum(facts.node_us.get(name, 0.0) for name in region.nodes)
        nodes = " ".join(region.nodes[:24]) + (" …" if len(region.nodes) > 24 else "")
        lines.append(f"{number}: nodes {nodes} | in: {ins} | out: {outs} | ATen takes {us:.0f} us for them")
    return bullets(lines)


def machine_text(target: str, facts: Facts, arch: str = "") -> str:
    """`arch`: of a GPU, as "sm_90a"."""
    rates = f"{facts.bandwidth / 1e9:.1f} GB/s from main memory, {facts.flop_rate / 1e9:.0f} GFLOP/s in float32 (measured)"
    if target == "cuda":
        return f"An NVIDIA GPU{f' of architecture {arch}' if arch else ''}: {rates}. {_memories(arch)}"
    return (
        f"A CPU: {facts.threads} threads, vectors of {facts.vector} floats, L1 {facts.l1_bytes >> 10} KiB and "
        f"L2 {facts.l2_bytes >> 10} KiB a core, L3 {facts.l3_bytes >> 20} MiB shared; {rates}."
    )


def _memories(arch: str) -> str:
    """Describe the memories of a block, by compute capability (CUDA C++ programming guide, "Technical Specifications per Compute Capability")."""
    kib = SMEM_KIB_PER_BLOCK.get(arch.removeprefix("sm_").rstrip("af"), 48)
    suffix = " More than 48 KiB of it is asked for before the launch." if kib > 48 else ""
    return (
        f"A block has at most 1024 threads, 64 K registers of 32 bits (255 a thread) and {kib} KiB of shared memory.{suffix} "
        "A warp's loads are widest with 16 bytes a thread, neighbouring threads side by side; a thread keeps several under way."
    )


def time_text(graph: Graph, facts: Facts, limit: Limit) -> str:
    """Describe where the reference is on the roofline, and where its time goes."""
    share = limit.seconds * 1e6 / facts.total_us if facts.total_us else 0.0
    lines = [
        f"the reference takes {facts.total_us:.0f} us with the best baseline; the speed-of-light limit is "
        f"{limit.seconds * 1e6:.0f} us ({limit.bound}-bound: {limit.least_bytes:,} bytes at least, {limit.flops:,} FLOP), "
        f"so it is at {share:.0%} of the limit"
    ]
    hot = sorted(facts.node_us.items(), key=lambda item: (-item[1], item[0]))[:HOT]
    lines += [f"{name} ({graph.by_name[name].op}): {us:.0f} us" for name, us in hot if name in graph.by_name]
    return bullets(lines)


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
    return f"round {lineage.round} {lineage.operator}: {techniques}: {describe_outcome(attempt)}"


def describe_outcome(attempt: Attempt) -> str:
    """Say how fast a candidate is, what it promises where it was only screened, or why it failed."""
    ratio = attempt.ratio
    if ratio is None or attempt.speedup <= 0:
        return failure_of(attempt.result)
    speed = f"{describe_speed(ratio)} of {ratio.baseline}"
    return (
        f"right where screening looked, an estimate of {speed}" if attempt.screened else f"correct, {speed}"
    )


def _values(unit: Unit) -> str:
    return " ".join(f"{name}={value}" for name, value in unit.values.items())


def profile_text(attempt: Attempt | None) -> str:
    """Describe what was measured of the best candidate's units."""
    if attempt is None or attempt.result.profile is None:
        return ""
    return bullets([_describe_seen(profile) for profile in attempt.result.profile.regions])


def unit_profile_text(attempt: Attempt, unit: Unit) -> str:
    """Describe what was measured of one unit; empty where it was not looked at."""
    profile = attempt.find_profile(unit)
    return bullets([_describe_seen(profile)]) if profile is not None else ""


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
    standing = (
        f"in a candidate at {describe_speed(ratio)} of {ratio.baseline} ({ratio.low:.2f} to {ratio.high:.2f})"
    )
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
    return f"{describe_speed(ratio)} over {ratio.baseline}, {share:.0%} of the limit."
