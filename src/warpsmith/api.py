"""The Python API; the CLI and every other face call these functions and hold no logic of their own.

`optimize` takes a module and example inputs and returns a drop-in module. `optimize_task`, `run_suite` and `judge_solution` work on
KernelBench-format files.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import plugins
from .archive.store import Archive
from .budgets import BudgetLike, parse_budget
from .config import Config
from .errors import UsageError, WarpsmithError
from .judge.bound import TimeBound
from .judge.judge import Judge
from .judge.task_check import TaskCheck
from .llm.setup import check
from .machine import describe
from .pipeline import Outcome, Run
from .pipeline.suite import Finished, Suite, play_suite
from .processes.buffers import Scratch
from .progress import Observer, SilentObserver, duration
from .records import Admission, Budget, Candidate, Lineage, Result, RunSummary, Task, Unit
from .runtime.rewrites import deployed_graph
from .solutions.judge import judge_solution as judge_module
from .solutions.source import read_solution
from .solutions.verdict import SolutionVerdict, make_unit_verdict
from .targets.base import Target, unit_device
from .targets.front_matter import unit_from_source
from .tasks.load import load_suite, load_task
from .tasks.regions import make_region
from .tasks.suite import suite_names
from .watching import watching

INDEPENDENT = {"reuse": False, "lessons": False, "transplant": False}  # settings of searches that are samples

if TYPE_CHECKING:
    import torch

    from .runtime.module import OptimizedModule


def optimize_task(
    spec: str,
    *,
    target: str = "cpu",
    budget: BudgetLike | None = None,
    seed: int | None = None,
    config: Config | None = None,
    observer: Observer | None = None,
    progress: bool | None = None,
    overrides: dict[str, Any] | None = None,
    reuse: bool = False,
    replay: str | None = None,
) -> RunSummary:
    """Optimize a task file or `package.module:Class`. Raises TaskError, ToolchainError, ArchiveError, JudgeError; UsageError
    when a language model that is named cannot be asked. One that is lost on the way is the summary's `fault`.

    `budget`: "2m", "90s", seconds, or a `Budget`; a time is then the only limit. With `reuse`, a run that was finished on this
    machine with the same settings is returned instead of run again. With `replay`, the run with this id is searched again from its
    record alone: no judge, no network, no key. `progress` as in `optimize`.
    """
    config, limits = config or Config.load(), parse_budget(budget)
    if replay is None:
        check(config, limits)
    built = make_target(target, config)
    archive = Archive(config.archive)
    with watching(observer, progress) as observer, Scratch() as scratch:
        observer.stage(f"loading {spec}")
        task = _load(spec, scratch, config, overrides)
        run = Run(task, built, limits, config, archive, observer, scratch, seed)
        if replay is not None:
            return run.replay(replay).summary
        return (run.find_finished() if reuse else None) or run.play().summary


def run_suite(
    suite: str,
    *,
    target: str = "cpu",
    budget: BudgetLike | None = None,
    seed: int | None = None,
    config: Config | None = None,
    observer: Observer | None = None,
    progress: bool | None = None,
    limit: int | None = None,
    samples: int = 1,
    finished: Finished | None = None,
) -> list[RunSummary]:
    """Every task of a suite (a name or a directory), in order. A run that was finished with the same settings is not run again.

    A task that cannot be run becomes a summary of status "failed" with the reason; the others go on. After a summary with a
    `fault` (its language model is lost) none does. With `samples` above 1 each task is searched so often, with seeds that
    count up from `seed` (or 0), and without what one search could take from another: results, lessons, units of other tasks.
    `finished` is called after each run with its summary and how many are still to come.
    """
    config, limits = config or Config.load(), parse_budget(budget)
    check(config, limits)
    make_target(target, config)  # what would fail on every task fails here, before any of them
    if samples > 1:
        config = config.model_copy(update=INDEPENDENT)
    files = load_suite(suite)

    def play(path: str, seed: int | None) -> RunSummary:
        return optimize_task(
            path, target=target, budget=limits, seed=seed, config=config, observer=shown, reuse=True
        )

    tasks = list(zip(suite_names(files), files, strict=True))[:limit]
    with watching(observer, progress) as shown:
        return play_suite(Suite(tasks, target, samples, seed), play, shown, config.cache / "logs", finished)


def judge_solution(
    solution: Path,
    task_spec: str,
    *,
    target: str = "cpu",
    seed: int | None = None,
    config: Config | None = None,
    observer: Observer | None = None,
    progress: bool | None = None,
    overrides: dict[str, Any] | None = None,
) -> Result:
    """Judge a C++ unit that covers a whole task, in fresh processes against every baseline.

    The seed is drawn when none is given, so that nobody can write a kernel for it. On a quarantined task, on which cheats pass,
    the verdict is labelled so.
    """
    config = config or Config.load()
    seed = secrets.randbits(31) if seed is None else seed
    built = make_target(target, config)
    with watching(observer, progress) as observer, Scratch() as scratch:
        observer.stage(f"loading {task_spec}")
        task = _load(task_spec, scratch, config, overrides)
        candidate = given_candidate(task, solution, built)
        judge = Judge(
            task, built, scratch=scratch, workdir=scratch.new("run"), seed=seed, progress=observer.stage,
            baselines=config.baselines, peaks_cache=config.cache,
        )  # fmt: skip
        with judge:
            judge.open()
            if not judge.admission.admitted:
                observer.note(
                    f"{task.name} is quarantined, so its numbers prove nothing: {'; '.join(judge.admission.reasons)}"
                )
            return labelled(judge.confirm(candidate), judge.admission)


def judge_file(
    solution: Path,
    task_spec: str,
    *,
    target: str = "cpu",
    seed: int | None = None,
    config: Config | None = None,
    observer: Observer | None = None,
    overrides: dict[str, Any] | None = None,
) -> SolutionVerdict:
    """Judge any solution: a Python file with `ModelNew`, or a unit that covers the whole task.

    Raises UsageError for a file that is neither, TaskError, ToolchainError, JudgeError.
    """
    config, observer = config or Config.load(), observer or SilentObserver()
    seed = secrets.randbits(31) if seed is None else seed
    if solution.suffix != ".py":
        result = judge_solution(
            solution,
            task_spec,
            target=target,
            seed=seed,
            config=config,
            observer=observer,
            overrides=overrides,
        )
        hardware = describe(device=unit_device(make_target(target, config))).hardware
        return make_unit_verdict(str(solution), Path(task_spec).stem, result, hardware)
    read_solution(solution)  # what is no solution is said before anything is loaded
    built = make_target(target, config)
    with Scratch() as scratch:
        observer.stage(f"loading {task_spec}")
        task = _load(task_spec, scratch, config, overrides)
        return judge_module(
            solution, task, built, scratch=scratch, cache=config.cache, seed=seed,
            baselines=config.baselines, progress=observer.stage,
        )  # fmt: skip


def labelled(result: Result, admission: Admission) -> Result:
    """The result; on a task that is not admitted its verdict has the label "quarantined"."""
    if admission.admitted or result.verdict is None:
        return result
    verdict = result.verdict.model_copy(update={"labels": (*result.verdict.labels, "quarantined")})
    return result.model_copy(update={"verdict": verdict})


def check_task(
    spec: str,
    *,
    target: str = "cpu",
    config: Config | None = None,
    observer: Observer | None = None,
    overrides: dict[str, Any] | None = None,
    seconds: float | None = None,
) -> tuple[Task, Admission]:
    """Load a task and try to cheat on it: whether it is admitted, and which rule catches each mutant. `seconds`: for all of
    it (None: no limit); what they do not suffice for is in the admission's `unchecked`.
    """
    bound = TimeBound(seconds)
    config, observer = config or Config.load(), observer or SilentObserver()
    built = make_target(target, config)
    with Scratch() as scratch:
        observer.stage(f"loading {spec}, at most {duration(config.load_timeout)} for a shape ({bound})")
        task = _load(spec, scratch, config, overrides)
        check = TaskCheck(
            task, built, scratch=scratch, workdir=scratch.new("run"), seed=0, progress=observer.stage
        )
        with check:
            return task, check.check(bound)


def given_candidate(task: Task, solution: Path, target: Target) -> Candidate:
    """A unit file as a candidate for the whole graph. Raises UsageError for what is not a unit file."""
    try:
        text = solution.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{solution} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if "warpsmith-unit:" not in text:
        raise UsageError(
            f"{solution} is not a warpsmith unit: a C++ file whose first lines say '// warpsmith-unit: 1'"
        )
    region = make_region(task.graph, [n.name for n in task.graph.nodes])
    unit: Unit = unit_from_source(text, region, language=target.language)
    return Candidate(
        task_id=task.id,
        target=target.name,
        units=(unit,),
        lineage=Lineage(operator="given", reason=solution.name),
    )


def optimize(
    module: torch.nn.Module | Any,
    example_inputs: torch.Tensor | Sequence[Any] | Mapping[str, Any],
    example_kwargs: Mapping[str, Any] | None = None,
    *,
    target: str | None = None,
    budget: BudgetLike | None = None,
    seed: int | None = None,
    config: Config | None = None,
    observer: Observer | None = None,
    progress: bool | None = None,
) -> OptimizedModule:
    """A faster, verified drop-in for a module (or plain function) at the shapes of the example inputs.

    `example_inputs`: a tensor, a sequence of arguments, or a mapping of keywords (then `example_kwargs` adds to it); of any
    classes that hold tensors, as `forward` takes them. `target`: the module's own device where it is None. Raises UsageError,
    TaskError, ToolchainError, ArchiveError, JudgeError.

    Parameters are shared with the original, which also answers for every other shape, dtype or mode, and when gradients are needed.
    When nothing faster was found the returned module runs the original; `.summary` says what was measured.

    `budget`: "2m", "90s", seconds, or a `Budget`; a time is then the only limit. `progress`: None shows it on a terminal and in a
    notebook, True always, False never; an `observer` is told instead.
    """
    from .runtime.module import OptimizedModule, as_module
    from .tasks.memory import export_module

    config, limits = config or Config.load(), parse_budget(budget)
    original, (args, kwargs) = as_module(module), call_arguments(example_inputs, example_kwargs)
    target = target_of(original, (args, kwargs), target)
    built, archive = make_target(target, config), Archive(config.archive)
    with watching(observer, progress) as observer, Scratch() as scratch:
        observer.stage("exporting the module")
        exported = export_module(original, args, kwargs, config.cache / "exports")
        task = exported.task
        outcome = Run(task, built, limits, config, archive, observer, scratch, seed).play()
        parts = winning_parts(task, built, outcome)
    return OptimizedModule(
        original, task.graph, parts, outcome.summary, device=device_of(target),
        rewritten=winning_graph(task, outcome), names=exported.names,
    )  # fmt: skip


def call_arguments(inputs: Any, keywords: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a module is called with: `inputs` is its only argument, a sequence of arguments, or a mapping of keywords.

    Raises UsageError for keywords that are named twice.
    """
    import torch

    args: tuple[Any, ...] = ()
    kwargs = dict(keywords or {})
    if isinstance(inputs, Mapping):
        twice = sorted(set(inputs) & set(kwargs))
        if twice:
            raise UsageError(f"the example inputs name {twice[0]} twice")
        kwargs = {**inputs, **kwargs}
    elif isinstance(inputs, torch.Tensor):
        args = (inputs,)
    elif isinstance(inputs, Sequence) and not isinstance(inputs, str | bytes):
        args = tuple(inputs)
    else:
        raise UsageError(
            f"the example inputs are a {type(inputs).__name__}: give a tensor, a tuple of arguments, or a dict of keywords"
        )
    return args, kwargs


def target_of(module: torch.nn.Module, arguments: Any, target: str | None) -> str:
    """The target for a module where it is. Raises UsageError where module, arguments and target are not on one device."""
    from .tasks.structure import NotRebuildable, take_apart

    try:
        tensors = take_apart(arguments)[1].leaves
    except NotRebuildable as error:
        raise UsageError(f"the module takes {error}") from error
    devices = {t.device.type for t in (*tensors, *module.parameters(), *module.buffers())}
    if len(devices) > 1:
        raise UsageError(
            f"the module and its example inputs are on {' and '.join(sorted(devices))}: put both on one device"
        )
    device = next(iter(devices), "cpu")
    if device not in ("cpu", "cuda"):
        raise UsageError(f"the module is on {device}: it must be on cpu or cuda")
    if target is not None and device_of(target) != device:
        raise UsageError(
            f"the module is on {device} and the target is {target}: "
            f"move the module and its inputs first, or leave the target out"
        )
    return target or device


def device_of(target: str) -> str:
    """The torch device on which a target's kernels run."""
    return "cpu" if target == "cpu" else "cuda"


def winning_parts(task: Task, target: Target, outcome: Outcome) -> list[tuple[Any, Path]]:
    """(region, library) of each unit of a win; empty when there is none."""
    if outcome.summary.status != "win" or outcome.best is None:
        return []
    builds = [(u.region, target.build(u, task.graph, "main")) for u in outcome.best.candidate.compiled]
    return [(region, Path(build.library)) for region, build in builds]


def winning_graph(task: Task, outcome: Outcome) -> Any | None:
    """The graph that they are put into, where a win's units in ATen change the task's; else None."""
    if outcome.summary.status != "win" or outcome.best is None:
        return None
    graph = deployed_graph(task.graph, outcome.best.candidate.units)
    return graph if graph is not task.graph else None


def make_target(name: str, config: Config) -> Target:
    """The target by name, its compiler found. Raises UsageError, ToolchainError."""
    target: Target = plugins.load("targets", name)(config.cache, config.compiler, config.threads)
    return target


def _load(spec: str, scratch: Scratch, config: Config, overrides: dict[str, Any] | None) -> Task:
    """A task within the limits of the settings."""
    memory = int(config.memory_gb * 2**30) if config.memory_gb is not None else None
    return load_task(
        spec, scratch=scratch, overrides=overrides, timeout=config.load_timeout, memory_bytes=memory
    )


__all__ = [
    "Budget", "Config", "WarpsmithError", "judge_solution", "optimize", "optimize_task", "run_suite",
]  # fmt: skip
