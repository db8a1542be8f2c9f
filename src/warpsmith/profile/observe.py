"""`profile` runs every observer on one judged candidate.

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
from ..targets.cuda_toolkit import toolkit
from ..targets.target import Target
from . import clang_tidy, compiler_report, ncu, roofline, torch_profiler
from .harness import cuda_harness
from .observation import Observation, not_available
from .sanitizer import SanitizerReport, prepare_calls, sanitize

EVIDENCE_BYTES = 1 << 30  # of reference outputs, cached
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
    """Yield observations as they are made. `seconds`: of one call as it was judged, 0 if it was not timed.

    Raises TaskError when the task does not run, ToolchainError when a unit does not build here, and what `Worker`
    raises when a trusted process is lost.
    """
    yield roofline.observe(limit, seconds)
    builds = {u.region.id: _build(u, task, target) for u in candidate.compiled}
    for unit in candidate.compiled:
        yield compiler_report.observe(unit, builds[unit.region.id], _cuobjdump(target))
        yield clang_tidy.observe(
            unit, target.header(task.graph, unit.region), builds[unit.region.id].flags, scratch
        )
    progress("starting the trusted processes")
    threads = machine.threads()
    device = "cuda" if target.name == "cuda" else "cpu"
    with Workers(task, scratch, threads, device) as workers:
        evidence = Evidence(task, workers, scratch, seed, EVIDENCE_BYTES)
        progress("profiling the candidate as deployed")
        deployed_variant = {"graph": deployed_graph(task.graph, candidate.units)}
        deployed = task.model_copy(update={"variants": (task.main.model_copy(update=deployed_variant),)})
        parts = [(u.region, Path(builds[u.region.id].library)) for u in candidate.compiled]
        values = evidence.values(Case(task.main.name, OWN, seed))
        yield torch_profiler.observe(deployed, parts, values, scratch=scratch, threads=threads, device=device)
        if device == "cuda":
            yield from observe_counters(candidate, task, target, evidence, scratch, cache_dir, seed)
        progress("running it under the sanitizers")
        sanitizer_report = sanitize(
            candidate, task, target, evidence, scratch=scratch, cache_dir=cache_dir, seed=seed
        )
        yield summarize_sanitizers(sanitizer_report)


def summarize_sanitizers(report: SanitizerReport) -> Observation:
    if not report.ran:
        return not_available(SANITIZERS, "; ".join(report.not_available) or "no unit was run")
    notes = (f"ran {', '.join(report.ran)}", *map(str, report.findings), *report.not_available)
    return Observation(observer=SANITIZERS, metrics={"findings": len(report.findings)}, notes=notes)


def _build(unit: Unit, task: Task, target: Target) -> Build:
    build = target.build(unit, task.graph, task.main.name)
    if not build.ok:
        first = next((d.message for d in build.diagnostics if d.kind != "warning"), "no reason is given")
        raise ToolchainError(f"a unit of this candidate does not build here: {first}")
    return build


def _cuobjdump(target: Target) -> str | None:
    return toolkit().cuobjdump if target.name == "cuda" else None


def observe_counters(
    candidate: Candidate, task: Task, target: Target, evidence: Evidence, scratch: Scratch, cache_dir: Path,
    seed: int,
) -> Iterator[Observation]:  # fmt: skip
    """Observe the hardware counters of each unit at the main shape."""
    try:
        cuda_toolkit = toolkit()
        program = cuda_harness(
            cache_dir,
            machine.find_compiler(getattr(target, "compiler", None)),
            cuda_toolkit.include,
            cuda_toolkit.libraries,
        )
    except ToolchainError as error:
        yield not_available(ncu.NAME, str(error))
        return
    prepared_calls = prepare_calls(
        candidate, task, target, evidence, scratch, seed, variants=(task.main.name,)
    )
    for unit, _graph, _variant, call in prepared_calls:
        yield ncu.observe(call.command(program, 1), unit.region.id)
        call.values.unlink(missing_ok=True)
