"""All units of some candidates built at every variant's shapes, one a processor at a time, before any of them is timed.

In: candidates, a target, a task's variants. For a unit in aten there is nothing to build: whether its operations are
allowed is looked at in its place. Out: for each candidate its libraries, or the stage and reason
that ended it. A unit whose stated requirements do not hold at another variant's shapes is left out there: it
is specialised.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from .. import machine
from ..records import Build, Candidate, Diagnostic, Status, Task, Unit
from ..runtime.rewrites import forbidden
from ..targets.diagnostics import MAX_MESSAGE_CHARS, is_refused, one_line, unmet_requirements
from ..targets.target import Target

Key = tuple[str, str]  # (variant, Unit.code_key)


@dataclass(frozen=True)
class Built:
    builds: tuple[Build, ...]
    libraries: dict[Key, Build]  # those that can run
    status: Status = "ok"
    reason: str = ""
    seconds: float = 0.0


def build_all(
    candidates: Sequence[Candidate], task: Task, target: Target, variants: Sequence[str] | None = None
) -> list[Built]:
    """At all of the task's variants, or at those named. Raises ToolchainError or JudgeError when nothing can be built here
    at all.
    """
    names = [v.name for v in task.variants if variants is None or v.name in variants]
    with ThreadPoolExecutor(len(machine.affinity())) as pool:
        jobs: dict[Key, Future[tuple[Build, float]]] = {}
        for candidate in candidates:
            for name in names:
                for unit in candidate.units:
                    key = (name, unit.code_key)
                    if key not in jobs:
                        jobs[key] = pool.submit(_build_unit, target, unit, task, name)
        done = {key: job.result() for key, job in jobs.items()}
    return [_collect(candidate, task, names, done) for candidate in candidates]


def _build_unit(target: Target, unit: Unit, task: Task, variant: str) -> tuple[Build, float]:
    start = time.monotonic()
    graph = task.variant(variant).graph
    build = target.build(unit, graph, variant) if unit.compiled else _make_aten_build(unit, variant)
    return build, time.monotonic() - start


def _make_aten_build(unit: Unit, variant: str) -> Build:
    """The build of a unit that the library runs."""
    reason = forbidden(unit.rewrite) if unit.rewrite is not None else "it states no operations"
    diagnostics = (Diagnostic(line=0, kind="symbol", message=reason),) if reason else ()
    return Build(
        unit_key=unit.code_key, variant=variant, ok=not reason, compiler="ATen", diagnostics=diagnostics
    )


def _collect(
    candidate: Candidate, task: Task, variants: Sequence[str], done: dict[Key, tuple[Build, float]]
) -> Built:
    keys = [(v, u.code_key) for v in variants for u in candidate.units]
    results = {key: done[key] for key in dict.fromkeys(keys)}
    builds = tuple(build for build, _ in results.values())
    seconds = sum(spent for _, spent in results.values())
    libraries = {key: build for key, (build, _) in results.items() if build.ok}
    stated = {u.code_key: {text.strip()[:MAX_MESSAGE_CHARS] for text in u.requires} for u in candidate.units}
    for (variant, code), (build, _) in results.items():
        # An assertion in the source may say "requires:", too: only what the unit states excuses a variant.
        if build.ok or (variant != task.main.name and stated[code].intersection(unmet_requirements(build))):
            continue
        where = "" if variant == task.main.name else f"at the shapes of variant {variant}: "
        status: Status = "refused" if is_refused(build) else "build-failed"
        return Built(builds, libraries, status, where + one_line(build.diagnostics), seconds)
    return Built(builds, libraries, seconds=seconds)
