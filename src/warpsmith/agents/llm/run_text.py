"""The beginning of every prompt of a run: machine, module, regions, their headers, the expert's kernels, knowledge.

In: the task, the target, the facts that the run began with, retrieval. Out: one text that stays the same, letter by letter, for all questions
of the run, whatever was measured since: providers bill it once.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...codegen.program import Unsupported
from ...errors import TaskError
from ...facts import Facts
from ...kernels.registry import family_of
from ...records import Graph, Region, Task
from ...targets.helper_api import describe_helpers
from ...targets.machine_sheet import describe_machine
from ...targets.target import Target
from ...tasks.regions import make_region
from ..expert.brain import ExpertBrain
from . import telling
from .prompts import fence, render_run
from .retrieval import Retrieval

MAX_REGIONS = 12
MAX_HEADER_CHARACTERS = 3_000  # of all headers together; the others stand in the questions on their regions
MAX_EXPERT_CHARACTERS = 4_500  # of the expert's kernels together
PASSAGES = 3


def list_regions(graph: Graph, target: Target, facts: Facts) -> list[Region]:
    """The whole graph, where one unit can cover it, and the regions of the expert's plans; those with a header only."""
    regions: dict[str, Region] = {}
    try:
        whole_graph = make_region(graph, [n.name for n in graph.nodes])
        regions[whole_graph.id] = whole_graph
    except TaskError:
        pass
    for plan in ExpertBrain().plans(graph, facts):
        for region in plan:
            regions.setdefault(region.id, region)
    return [r for r in regions.values() if has_header(graph, target, r)][:MAX_REGIONS]


def has_header(graph: Graph, target: Target, region: Region) -> bool:
    try:
        target.header(graph, region)
    except ValueError:  # a dtype that no kernel takes
        return False
    return True


def list_headers(graph: Graph, target: Target, regions: Sequence[Region]) -> dict[str, str]:
    """Region id → its header, of those that find room."""
    headers: dict[str, str] = {}
    room = MAX_HEADER_CHARACTERS
    for region in regions:
        text = target.header(graph, region)
        if len(text) <= room:
            headers[region.id] = text
            room -= len(text)
    return headers


def describe_run(
    task: Task,
    target: Target,
    facts: Facts | None,
    regions: Sequence[Region],
    retrieval: Retrieval,
    examples: bool,
) -> str:
    graph, figures = task.graph, facts or Facts(threads=0)
    numbers = {r.id: number for number, r in enumerate(regions)}
    headers = list_headers(graph, target, regions)
    about = "; ".join(dict.fromkeys(r.signature for r in regions[:3]))
    return render_run(
        machine=describe_machine(target.name, facts, getattr(target, "arch", "")) if facts is not None else "",
        helpers=describe_helpers(target.name), source=telling.task_text(task), graph=telling.graph_text(graph),
        regions=telling.regions_text(graph, regions, figures),
        headers="\n\n".join(f"Region {numbers[r]}:\n{fence(text, 'cpp')}" for r, text in headers.items()),
        expert=_list_expert_kernels(graph, regions, figures, target) if examples else "",
        knowledge="\n\n".join(retrieval.passages(about[:4_000], target.name, PASSAGES)),
    )  # fmt: skip


def _list_expert_kernels(graph: Graph, regions: Sequence[Region], facts: Facts, target: Target) -> str:
    """One kernel a region, as many as find room: the first technique that is short enough."""
    texts: list[str] = []
    room = MAX_EXPERT_CHARACTERS
    for number, region in enumerate(regions):
        family = family_of(graph, region, target.name)
        for technique in family.techniques(graph, region, facts)[:4] if family is not None else ():
            try:
                unit = family.write(graph, region, technique) if family is not None else None
            except Unsupported:
                continue
            if unit is not None and unit.compiled and len(unit.source) <= room:
                texts.append(f"Region {number}, {technique.name}:\n{fence(unit.source, 'cpp')}")
                room -= len(unit.source)
                break
    return "\n\n".join(texts)


__all__ = ["describe_run", "has_header", "list_headers", "list_regions"]
