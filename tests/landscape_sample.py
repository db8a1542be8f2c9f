"""A landscape made by formula: everything the expert can write for a chain of three operations, at times that are known."""

from collections.abc import Iterator
from itertools import product

from warpsmith.agents.expert.ideas import Known, ideas
from warpsmith.agents.expert.planner import plans
from warpsmith.executors.landscape_data import Header, Landscape, Point, Site, Source, Whole
from warpsmith.executors.landscape_file import VERSION
from warpsmith.facts import Facts
from warpsmith.records import BaselineTiming, Environment, Limit, Task
from warpsmith.testing import chain_task

FACTS = Facts(
    threads=1, vector=16, node_us={"n0": 300.0, "n1": 200.0, "n2": 100.0}, total_us=600.0, limit_us=50.0
)
FLAG = "-fno-tree-vectorize"
HERE = Environment(
    cpu="by formula", cores=1, threads=1, memory_gb=1.0, simd="none", os="none", python="3", torch="0", compiler="none"
)  # fmt: skip


def sample_task() -> Task:
    return chain_task(("aten.exp.default", "aten.tanh.default", "aten.neg.default"))


def micros(values: dict[str, int]) -> float:
    """Fastest at the largest UNROLL and the smallest of everything else."""
    return (
        200.0
        + sum(20.0 * v.bit_length() for n, v in values.items() if n != "UNROLL")
        - values.get("UNROLL", 0)
    )


def sample_landscape() -> Landscape:
    task = sample_task()
    sites: list[Site] = []
    sources: list[Source] = []
    points: list[Point] = []
    for idea in ideas(task.graph, FACTS, Known(), plans(task.graph, FACTS)):
        unit = idea.family.write(task.graph, idea.region, idea.technique)
        here = Site(nodes=idea.region.nodes, limit_us=50.0, bound="memory", least_bytes=256, flops=64)
        if here not in sites:
            sites.append(here)
        names = tuple(t.name for t in unit.tunables)
        domains = tuple(tuple(sorted(t.domain)) for t in unit.tunables)
        sources.append(
            Source(
                site=sites.index(here), family=unit.family, technique=unit.technique, flags=unit.flags,
                names=names, domains=domains,
            )
        )  # fmt: skip
        points += _points(len(sources) - 1, names, tuple(unit.values.values()), domains)
    whole = Whole(points=(0,), us=points[0].us, low=points[0].low, high=points[0].high)
    return Landscape(
        header=_header(task),
        sites=tuple(sites),
        sources=tuple(sources),
        points=tuple(points),
        wholes=(whole,),
    )


def _points(
    source: int, names: tuple[str, ...], own: tuple[int, ...], domains: tuple[tuple[int, ...], ...]
) -> Iterator[Point]:
    for values in [own, *(c for c in product(*domains) if c != own)]:
        us = micros(dict(zip(names, values, strict=True)))
        yield Point(
            source=source, values=values, us=us, low=0.98 * us, high=1.02 * us, calls=9, build=0.5, judge=0.5
        )
    us = micros(dict(zip(names, own, strict=True)))
    yield Point(source=source, values=own, flags=(FLAG,), us=2 * us, low=1.9 * us, high=2.1 * us, calls=9)


def _header(task: Task) -> Header:
    limit = Limit(
        seconds=5e-5, least_bytes=256, flops=64, bytes_per_second=1e9, flops_per_second=1e9, bound="memory"
    )
    eager = BaselineTiming(name="eager", ok=True, median_us=600.0, low_us=590.0, high_us=610.0)
    return Header(
        version=VERSION, task=task, target="cpu", facts=FACTS.__dict__, limit=limit, baselines=(eager,),
        environment=HERE, register_bits=512,
    )  # fmt: skip
