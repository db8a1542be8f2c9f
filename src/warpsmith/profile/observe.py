"""Everything that is known of one judged candidate, from every observer.

In: a task, a candidate, its measured time and limit. Out: one `Observation` an observer and subject, the
sanitizers' among them. The trusted processes are opened for the inputs that units get; nothing is timed for a
verdict, and nothing here changes one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from .. import machine
from ..errors import ToolchainError
from ..judge.correctness.evidence import Case, Evidence
from ..judge.correctness.input_families import OWN
from ..judge.correctness.workers import Workers
from ..processes.buffers import Scratch
from ..records import Build, Candidate, Limit, Task, Unit
from ..runtime.rewrites import deployed_graph
from ..targets.base import Target
from ..targets.cuda_toolkit import toolkit
from . import clang_tidy, compiler_report, ncu, roofline, torch_profiler
from .base import Observation, not_available
from .harness import cuda_harness
from .sanitizer import Sanitized, calls, sanitize

CAPACITY = 1 << 30  # bytes of truth kept
SANITIZERS = "sanitizers"


def profile(
    candidate: Candidate,
    task: Task,
    target: Target,
    *,
    scratch: Scratch,
    cache_dir: Path,
    limit: Limit | None,
    seconds: float,
    seed: int = 0,
    progress: Callable[[str], None] = lambda text: None,
) -> Iterator[Observation]:
    """Observations as they are made. `seconds`: of one call as it was judged, 0 if it was not timed.

    Raises TaskError when the task does not run, ToolchainError when a unit does not build here, and what `Worker`
    raises when a trusted process is lost.
    """
    yield roofline.observe(limit, seconds)
    builds = {u.region.id: _built(u, task, target) for u in candidate.compiled}
    for unit in candidate.compiled:
        yield compiler_report.observe(unit, builds[unit.region.id], _cuobjdump(target))
        yield clang_tidy.observe(
            unit, target.header(task.graph, unit.region), builds[unit.region.id].flags, scratch
        )
    progress("starting the trusted processes")
    threads = machine.threads()
    device = "cuda" if target.name == "cuda" else "cpu"
    with Workers(task, scratch, threads, device) as workers:
        evidence = Evidence(task, workers, scratch, seed, CAPACITY)
        progress("profiling the candidate as deployed")
        changed = {"graph": deployed_graph(task.graph, candidate.units)}
        deployed = task.model_copy(update={"variants": (task.main.model_copy(update=changed),)})
        parts = [(u.region, Path(builds[u.region.id].library)) for u in candidate.compiled]
        values = evidence.values(Case(task.main.name, OWN, seed))
        yield torch_profiler.observe(deployed, parts, values, scratch=scratch, threads=threads, device=device)
        if device == "cuda":
            yield from _counters(candidate, task, target, evidence, scratch, cache_dir, seed)
        progress("running it under the sanitizers")
        found = sanitize(candidate, task, target, evidence, scratch=scratch, cache_dir=cache_dir, seed=seed)
        yield sanitizer_observation(found)


def sanitizer_observation(found: Sanitized) -> Observation:
    if not found.ran:
        return not_available(SANITIZERS, "; ".join(found.not_available) or "no unit was run")
    notes = (f"ran {', '.join(found.ran)}", *map(str, found.findings), *found.not_available)
    return Observation(observer=SANITIZERS, metrics={"findings": len(found.findings)}, notes=notes)


def _built(unit: Unit, task: Task, target: Target) -> Build:
    build = target.build(unit, task.graph, task.main.name)
    if not build.ok:
        first = next((d.message for d in build.diagnostics if d.kind != "warning"), "no reason is given")
        raise ToolchainError(f"a unit of this candidate does not build here: {first}")
    return build


def _cuobjdump(target: Target) -> str | None:
    return toolkit().cuobjdump if target.name == "cuda" else None


def _counters(
    candidate: Candidate, task: Task, target: Target, evidence: Evidence, scratch: Scratch, cache_dir: Path,
    seed: int,
) -> Iterator[Observation]:  # fmt: skip
    """Hardware counters of each unit at the main shape."""
    try:
        kit = toolkit()
        program = cuda_harness(
            cache_dir, machine.find_compiler(getattr(target, "compiler", None)), kit.include, kit.libraries
        )
    except ToolchainError as error:
        yield not_available(ncu.NAME, str(error))
        return
    made = calls(candidate, task, target, evidence, scratch, seed, variants=(task.main.name,))
    for unit, _graph, _variant, call in made:
        yield ncu.observe(call.command(program, 1), unit.region.id)
        call.values.unlink(missing_ok=True)
