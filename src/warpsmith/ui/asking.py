"""Forms of the pages become requests, or one line that says why not.

In: an activity, the fields of a form. Out: a row of the inbox. What a form holds is checked here as far as it can be without the process
that works; what that process makes of it is its answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..authoring.answers import Answer, make_candidate
from ..authoring.regions import propose_regions, resolve, techniques
from ..errors import UsageError
from ..kernels.registry import family_of
from ..records import Hypothesis, Region, Task
from ..records.live import Activity, RequestKind
from .views import Views

MAX_TEXT_CHARACTERS = 400
KINDS: tuple[RequestKind, ...] = ("stop", "pin", "hypothesis", "kernel")


def ask(views: Views, activity: Activity, kind: str, fields: Mapping[str, str]) -> int:
    """Put the request of a form; return its number. Raises UsageError, one line."""
    chosen = next((k for k in KINDS if k == kind), None)
    if chosen is None:
        raise UsageError(f"nothing here can be asked for {kind[:40]!r}")
    if activity.ended_at or views.activities.is_lost(activity):
        raise UsageError("it has ended: nothing can be asked of it any more")
    if activity.kind == "authors":
        raise UsageError("a session of authors takes no requests: it ends when they leave")
    if chosen != "stop" and activity.kind != "run":
        raise UsageError(f"a {activity.kind} takes no {kind}: ask one of its runs")
    body = {} if chosen == "stop" else _make_body(views, activity, chosen, fields)
    return views.inbox.ask(activity.activity_id, chosen, body, activity.run_id)


def list_ideas(task: Task, target: str) -> list[tuple[str, str]]:
    """List (region number and technique, in words) that the expert knows for a task's regions."""
    regions, ideas = propose_regions(task.graph, target), list[tuple[str, str]]()
    for number, region in enumerate(regions, 1):
        for line in techniques(task.graph, region, target):
            name = line.partition(":")[0]
            ideas.append((f"{number} {name}", f"region {number} ({describe_region(region)}): {name}"))
    return ideas


def list_regions(task: Task, target: str) -> list[tuple[str, str]]:
    """List (number, in words) of the proposed regions."""
    regions = enumerate(propose_regions(task.graph, target), 1)
    return [(str(number), f"{number}: {describe_region(region)}") for number, region in regions]


def describe_region(region: Region) -> str:
    names = ", ".join(region.nodes[:4])
    return f"{names}, {len(region.nodes) - 4} more" if len(region.nodes) > 4 else names


def _make_body(
    views: Views, activity: Activity, kind: RequestKind, fields: Mapping[str, str]
) -> dict[str, str]:
    if kind == "pin":
        return {"candidate": fields.get("candidate", "")[:MAX_TEXT_CHARACTERS]}
    task = views.find_task(activity)
    if task is None:
        raise UsageError("the run has not begun yet: its task is still being loaded or measured")
    if kind == "hypothesis":
        return {"hypothesis": make_hypothesis(task, activity.target, fields).model_dump_json()}
    answer = Answer(
        source=_normalise(fields.get("source", "")), region=fields.get("region", ""), name="the kernel"
    )
    author, note = fields.get("author", "").strip() or "ui", fields.get("note", "")
    candidate = make_candidate(task, activity.target, [answer], author=author, note=note)
    return {"candidate": candidate.model_dump_json()}


def make_hypothesis(task: Task, target: str, fields: Mapping[str, str]) -> Hypothesis:
    """Make the hypothesis of a form: one of the expert's ideas, or a region and a technique in words. Raises UsageError."""
    number, _, technique = fields.get("idea", "").partition(" ")
    words = " ".join(fields.get("technique", "").split())[:MAX_TEXT_CHARACTERS]
    region = resolve(task.graph, fields.get("region", "") or number, propose_regions(task.graph, target))
    if not (words or technique):
        raise UsageError("say which technique: choose one, or name it")
    why = " ".join(fields.get("why", "").split())[:MAX_TEXT_CHARACTERS] or "somebody who watched asked for it"
    family = family_of(task.graph, region, target)
    return Hypothesis(
        region=region, family=family.name if family is not None else "", technique=words or technique,
        bottleneck="unknown", expected_gain=1.1, evidence=(why,),
    )  # fmt: skip


def _normalise(source: str) -> str:
    """Forms send line ends as CR LF."""
    return source.replace("\r\n", "\n")
