"""The Python API; the CLI and every other face call these functions and hold no logic of their own.

`optimize` takes a module and example inputs and returns a drop-in module. `optimize_task`, `run_suite` and `judge_solution` work on
KernelBench-format files.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import plugins
from .ahead import start_ahead
from .archive.store import Archive
from .authoring.naming import read_candidates
from .budgets import BudgetLike, parse_budget, share_budget
from .cluster.settings import Playing, RaySettings
from .config import Config
from .errors import UsageError, WarpsmithError
from .judge.admission.time_bound import TimeBound
from .judge.device.visible_gpus import VARIABLE as GPU_VARIABLE
from .judge.device.visible_gpus import list_visible_gpus
from .judge.judge import Judge
from .judge.task_check import TaskCheck
from .llm.setup import check
from .machine import describe
from .pipeline import Outcome, Run
from .pipeline.lane_client import LaneSettings
from .pipeline.live import LiveActivity
from .pipeline.live_suite import LiveSuite, SuitePlace
from .pipeline.suite import Finished, Suite, play_suite
from .pipeline.suite_lanes import play_in_lanes
from .pipeline.winning import build_winner, find_winner, rewrite_for_winner
from .places import ArchiveUrl
from .processes.buffers import Scratch
from .progress import Observer, SilentObserver, closing_line, duration
from .records import Admission, Budget, Candidate, Lineage, Result, RunSummary, Task, Unit
from .solutions.judge import judge_solution as judge_module
from .solutions.source import read_solution
from .solutions.verdict import SolutionVerdict, make_unit_verdict
from .targets.front_matter import unit_from_source
from .targets.target import Target, unit_device
from .tasks.load import load_suite, load_task
from .tasks.regions import make_region
from .tasks.suite import suite_names
from .tracking import check_trackers, open_tracking
from .watching import watching

INDEPENDENT = {
    "reuse": False,
    "lessons": False,
    "transplant": False,
    "authors": False,
}  # settings of searches that are samples
LANE_PLAY = "warpsmith.api:play_lane_run"  # what a lane's process plays runs with

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
    start_from: Sequence[str | Path] = (),
    suite: SuitePlace | None = None,
    ray: RaySettings | str | None = None,
) -> RunSummary:
    """Search for a faster, verified implementation of a task file or `package.module:Class`.

    Every result goes to the archive. The same call after a crash goes on from there. A language model that is lost on the way ends
    the search early; the summary's `fault` names it.

    Args:
        spec: A path to a KernelBench-format file, or `package.module:Class`.
        target: `"cpu"` or `"cuda"`.
        budget: As in `optimize`.
        seed: Seed of every random choice; drawn when None.
        config: Settings; read from `warpsmith.toml` and the environment when None.
        observer: Hears of the progress instead of the terminal.
        progress: As in `optimize`.
        overrides: Values for constants of the task's file, by name, such as `{"batch_size": 64}`.
        reuse: Return a run that was finished on this machine with the same settings instead of a new one.
        replay: Id of a recorded run of this task, which is searched again from its record: no judge, no network, no key.
        start_from: Kernels of authors to begin with: ids of candidates in the archive, unit files, or folders of unit files that are one
            candidate. They are judged, tuned, edited and crossed with the agents' own. The best that others wrote for the task
            before join without being named (setting `authors`).
        suite: The suite and lane that the run belongs to, for those who watch.
        ray: A Ray cluster, as in `run_suite`, of which one worker plays the search. `spec` is a file then; `replay` and `start_from` are refused.

    Returns:
        A `RunSummary`.

    Raises:
        UsageError: A language model that is named cannot be asked, a value is wrong, or there is no such cluster.
        TaskError: The task cannot be loaded, exported or run.
        ToolchainError: There is no compiler, or it does not work.
        ArchiveError: The archive cannot be opened, read or written.
        JudgeError: A trusted process was lost, or the disk is full.
    """
    config, limits = config or Config.load(), parse_budget(budget)
    if replay is None:
        check(config, limits)
    if ray is not None:
        from .cluster.single_task import refuse_local_only

        refuse_local_only(replay, start_from, suite is not None)
        with watching(observer, progress) as shown:
            return _optimize_on_ray(
                spec, make_cluster(ray), target, limits, seed, config, overrides, reuse, shown
            )
    built = make_target(target, config)
    archive = Archive(config.archive)
    belongs = suite or SuitePlace()
    tracking = open_tracking(config.track, is_strict=suite is None)  # a suite has checked them
    live = LiveActivity(
        archive, "run", spec, target, belongs.suite, tracking, lane=belongs.lane, gpu=belongs.gpu
    )
    with watching(observer, progress) as shown, Scratch() as scratch, live:
        observer = live.observe(shown)
        observer.stage(f"loading {spec}")
        task = _load(spec, scratch, config, overrides)
        begun_with = read_candidates(task, target, archive, start_from)
        run = Run(task, built, limits, config, archive, observer, scratch, seed, begun_with, live=live)
        if replay is not None:
            return run.replay(replay).summary
        finished = run.find_finished() if reuse else None
        if finished is not None:
            live.finish(f"run {finished.run_id} was finished before: {closing_line(finished)}")
        return finished or run.play().summary


def _optimize_on_ray(
    spec: str, cluster: RaySettings, target: str, limits: Budget, seed: int | None, config: Config,
    overrides: dict[str, Any] | None, reuse: bool, shown: Observer,
) -> RunSummary:  # fmt: skip
    """Search on one worker of a cluster; the run goes into this archive once it was checked."""
    from .cluster.single_task import play_task_on_ray, read_task_file, write_overrides

    path, sent = read_task_file(spec), write_overrides(overrides)
    check_trackers(config.track)
    if cluster.starts_here:
        make_target(target, config)
    playing = make_playing(make_lane_settings(target, limits, config), target, config, config.cache / "logs")
    return play_task_on_ray(
        path, seed, limits, playing, cluster, Archive(config.archive), shown, reuse=reuse, overrides=sent
    )


def make_cluster(ray: RaySettings | str, lanes: int = 1) -> RaySettings:
    """Make the settings of a cluster from its address; settings stay as they are."""
    return RaySettings(ray, lanes) if isinstance(ray, str) else ray


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
    lanes: int = 1,
    ray: RaySettings | str | None = None,
) -> list[RunSummary]:
    """Run `optimize_task` on every task of a suite, in order. A run that was finished with the same settings is not run again.

    A task that cannot be run becomes a summary of status "failed" with the reason; the others go on. After a summary with a
    `fault` (its language model is lost) none does.

    Args:
        suite: A suite's name, such as `"core"`, or a folder of task files.
        target: `"cpu"` or `"cuda"`.
        budget: For each task, as in `optimize`.
        seed: Seed of every random choice; drawn when None.
        config: Settings; read from `warpsmith.toml` and the environment when None.
        observer: Hears of the progress instead of the terminal.
        progress: As in `optimize`.
        limit: The first so many tasks only; all when None.
        samples: Searches of each task, with seeds that count up from `seed` (or 0). Above 1 no search takes results, lessons or
            kernels from another.
        finished: A function that is called after each run with its summary and the number of runs still to come.
        lanes: Processes that play runs side by side, spread over the visible GPUs. Above 1 on a GPU only: on a CPU runs side by side
            would disturb each other's timings. On Ray: so many on each GPU.
        ray: A Ray cluster that plays the suite: `"auto"`, `"HOST:PORT"`, `"local"` for one that is started on this machine, or
            `RaySettings`. Its workers are the GPUs of its nodes, on the target `"cpu"` the nodes. What they send goes into this archive once it
            was checked; a win counts when a second worker has measured it, too.

    Returns:
        A list of `RunSummary`, one for each run, in the order of the tasks.

    Raises:
        UsageError: The suite is not known, a value is wrong, or there is no such cluster.
        ToolchainError: There is no compiler, or it does not work.
        ArchiveError: The archive cannot be opened, read or written.
        JudgeError: No worker is left in the cluster.
    """
    config, limits = config or Config.load(), parse_budget(budget)
    check_lanes(lanes, target)
    check(config, limits)
    check_trackers(config.track)
    cluster = make_cluster(ray, lanes) if ray is not None else None
    if cluster is None or cluster.starts_here:
        make_target(target, config)  # what would fail on every task fails here, before any of them
    if samples > 1:
        config = config.model_copy(update=INDEPENDENT)
    files = load_suite(suite)
    from .report.suite import SuiteSummaries

    def play(path: str, seed: int | None) -> RunSummary:
        return optimize_task(
            path, target=target, budget=limits, seed=seed, config=config, observer=shown, reuse=True,
            suite=SuitePlace(live.activity_id),
        )  # fmt: skip

    tasks = list(zip(suite_names(files), files, strict=True))[:limit]
    plan, logs = Suite(tasks, target, samples, seed), config.cache / "logs"
    archive = Archive(config.archive)
    with watching(observer, progress) as shown, LiveSuite(archive, suite, plan, limits, finished) as live:
        if cluster is not None:
            details = make_lane_settings(target, limits, config) | {"suite": live.activity_id}
            playing = make_playing(details, target, config, logs)
            from .cluster.suite_ray import play_on_ray

            summaries = play_on_ray(
                plan, playing, cluster, archive, shown, live.add_finished, live.is_stopped
            )
        elif lanes == 1:
            summaries = play_suite(plan, play, shown, logs, live.add_finished, live.is_stopped)
        else:
            details = make_lane_settings(target, limits, config) | {"suite": live.activity_id}
            settings = LaneSettings(lanes, LANE_PLAY, details, logs, list_visible_gpus())
            summaries = play_in_lanes(plan, settings, shown, live.add_finished, live.is_stopped)
        live.raise_if_stopped(len(summaries))
        return SuiteSummaries(summaries)


def check_lanes(lanes: int, target: str) -> None:
    """Raise UsageError where a suite cannot be played in so many lanes."""
    if lanes < 1:
        raise UsageError(f"{lanes} lanes cannot play a suite: give 1 or more")
    if lanes > 1 and device_of(target) == "cpu":
        raise UsageError(
            f"{lanes} lanes on the target {target}: runs side by side would disturb each other's timings; leave lanes at 1"
        )


def make_lane_settings(target: str, budget: Budget, config: Config) -> dict[str, Any]:
    """Make the settings of `play_lane_run` as JSON; they have the password of an archive's URL."""
    dumped = config.model_dump(mode="json")
    if isinstance(config.archive, ArchiveUrl):
        dumped["archive"] = config.archive.secret
    return {"target": target, "budget": budget.model_dump(mode="json"), "config": dumped}


def make_playing(details: dict[str, Any], target: str, config: Config, logs: Path) -> Playing:
    """Make what the workers of a cluster play with: into an archive of their own, where the suite's is a file."""
    sends = not isinstance(config.archive, ArchiveUrl)
    return Playing(LANE_PLAY, details, target, logs.absolute(), config.cache.absolute(), sends)


def play_lane_run(path: str, seed: int | None, observer: Observer, settings: Mapping[str, Any]) -> RunSummary:
    """Play a run in a lane's process, from settings as `make_lane_settings` makes them; `overrides` and `reuse` may be among them."""
    config, budget = Config.model_validate(settings["config"]), Budget.model_validate(settings["budget"])
    return optimize_task(
        path,
        target=settings["target"],
        budget=budget,
        seed=seed,
        config=config,
        observer=observer,
        overrides=settings.get("overrides"),
        reuse=settings.get("reuse", True),
        suite=SuitePlace(
            settings.get("suite", ""), settings.get("lane", 0), os.environ.get(GPU_VARIABLE, "")
        ),
    )


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
    """Judge a kernel file that covers a whole task, in fresh processes against every baseline.

    On a quarantined task, on which cheats pass, the verdict has the label "quarantined".

    Args:
        solution: A C++ or CUDA C++ file whose first line is `// warpsmith-unit: 1`.
        task_spec: A path to a KernelBench-format file, or `package.module:Class`.
        target: `"cpu"` or `"cuda"`.
        seed: Seed of inputs and orders. It is drawn when None, so that nobody can write a kernel for it.
        config: Settings; read from `warpsmith.toml` and the environment when None.
        observer: Hears of the progress instead of the terminal.
        progress: As in `optimize`.
        overrides: Values for constants of the task's file, by name.

    Returns:
        A `Result`: build, verdict, timing. A wrong kernel is a result, not an error.

    Raises:
        UsageError: The file is not a kernel file, or cannot be read.
        TaskError: The task cannot be loaded, exported or run.
        ToolchainError: There is no compiler, or it does not work.
        JudgeError: A trusted process was lost, or the disk is full.
    """
    config = config or Config.load()
    seed = secrets.randbits(31) if seed is None else seed
    built = make_target(target, config)
    with watching(observer, progress) as observer, Scratch() as scratch:
        observer.stage(f"loading {task_spec}")
        task = _load(task_spec, scratch, config, overrides)
        candidate = read_candidate(task, solution, built)
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
            return label_quarantined(judge.confirm(candidate), judge.admission)


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
        hardware = describe(config.compiler, unit_device(make_target(target, config))).hardware
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


def label_quarantined(result: Result, admission: Admission) -> Result:
    """Return the result; on a task that is not admitted its verdict gets the label "quarantined"."""
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


def read_candidate(task: Task, solution: Path, target: Target) -> Candidate:
    """Read a unit file as a candidate for the whole graph. Raises UsageError for what is not a unit file."""
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
    time: BudgetLike | None = None,
    seed: int | None = None,
    dynamic_shapes: Any = None,
    config: Config | None = None,
    observer: Observer | None = None,
    progress: bool | None = None,
    ray: RaySettings | str | None = None,
) -> OptimizedModule:
    """Return a faster, verified drop-in for a module or plain function, at the shapes of the example inputs.

    The result shares its parameters with the original, which stays as it is. Calls that are like the example run the confirmed
    kernels; the original answers all others (see `OptimizedModule`). Where nothing faster was found it answers every call.

    Args:
        module: An `nn.Module` in the mode and on the device to optimize for, or a function of tensors.
        example_inputs: A tensor, a sequence of positional arguments, or a mapping of keywords, with the shapes and dtypes to
            optimize for. Arguments may be of any class that Python can copy and that holds tensors.
        example_kwargs: More keyword arguments of the call.
        target: `"cpu"` or `"cuda"`; the device that the module is on when None.
        budget: `"90s"`, `"2m"`, a number of seconds, or a `Budget`. A time leaves the number of candidates open. None is
            `Budget()`: 60 candidates and 120 seconds.
        time: Another name of `budget`, as `optimize_model` has it.
        seed: Seed of every random choice; drawn when None.
        dynamic_shapes: The axes of tensors that vary, as `torch.export` takes them, each with a least and a largest size:
            `{"x": {0: torch.export.Dim("batch", min=1, max=64)}}`. Kernels are verified at both ends of the range, at primes and at random
            points, and measured there; calls at any of its sizes run them where they are surely faster.
        config: Settings; read from `warpsmith.toml` and the environment when None.
        observer: Hears of the progress instead of the terminal.
        progress: None shows progress on a terminal and in a notebook, True always, False never.
        ray: Refused: a live module cannot be sent to a Ray cluster. `optimize_task(FILE, ray=…)` sends a task file.

    Returns:
        An `OptimizedModule`; with `dynamic_shapes` a `DynamicModule`, which is one.

    Raises:
        UsageError: Module, inputs, target and budget do not fit together.
        TaskError: The module cannot be exported; the message names the operation, class or line.
        ToolchainError: There is no compiler, or it does not work.
        ArchiveError: The archive cannot be opened, read or written.
        JudgeError: A trusted process was lost, or the disk is full.
    """
    if ray is not None:
        raise UsageError(
            "a live module cannot be sent to a Ray cluster: write it as a task file with Model and get_inputs, and call optimize_task(FILE, ray=…)"
        )
    start_ahead()
    from .runtime.module import as_module

    if budget is not None and time is not None:
        raise UsageError("time and budget say the same: give one of them")
    config, limits = config or Config.load(), parse_budget(time if budget is None else budget)
    check_trackers(config.track)
    original, (args, kwargs) = as_module(module), call_arguments(example_inputs, example_kwargs)
    target = target_of(original, (args, kwargs), target)
    built, archive = make_target(target, config), Archive(config.archive)
    search = ModuleSearch(original, target, built, limits, config, archive, seed)
    with watching(observer, progress) as shown, Scratch() as scratch:
        if dynamic_shapes is not None:
            return search.play_range(args, kwargs, dynamic_shapes, shown, scratch)
        return search.play(args, kwargs, shown, scratch)


@dataclass(frozen=True)
class ModuleSearch:
    """The searches for one live module."""

    original: torch.nn.Module
    target_name: str
    target: Target
    limits: Budget
    config: Config
    archive: Archive
    seed: int | None

    def play(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], shown: Observer, scratch: Scratch
    ) -> OptimizedModule:
        from .runtime.module import OptimizedModule

        shown.stage("exporting the module")
        exported = self._export(args, kwargs, {})
        outcome = self.search(exported.task, self.limits, shown, scratch)
        return OptimizedModule(
            self.original, exported.task.graph, build_winner(exported.task, self.target, outcome), outcome.summary,
            device=device_of(self.target_name), rewritten=rewrite_for_winner(exported.task, outcome), names=exported.names,
        )  # fmt: skip

    def play_range(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        dynamic_shapes: Any,
        shown: Observer,
        scratch: Scratch,
    ) -> OptimizedModule:
        from .dynamic_shapes.dim_ranges import read_ranges
        from .dynamic_shapes.range_search import RangeSearch, Searched
        from .tasks.flattened import CallShape
        from .tasks.functions import find_called_function

        def search(exported: Any, share: float) -> Searched:
            outcome = self.search(exported.task, share_budget(self.limits, share), shown, scratch)
            return Searched(outcome.summary, find_winner(outcome))

        call = CallShape.of(find_called_function(self.original), args, kwargs)
        ranges = read_ranges(call, dynamic_shapes)
        seed = secrets.randbits(31) if self.seed is None else self.seed
        shown.stage(f"exporting the module at several sizes ({ranges.describe_range()})")
        return RangeSearch(
            self.original,
            call,
            ranges,
            self.target,
            device_of(self.target_name),
            seed,
            self._export,
            search,
            shown.stage,
        ).play()

    def _export(self, args: tuple[Any, ...], kwargs: dict[str, Any], points: Mapping[str, Any]) -> Any:
        from .tasks.memory import export_module

        return export_module(self.original, args, kwargs, self.config.cache / "exports", points=points)

    def search(
        self, task: Task, limits: Budget, shown: Observer, scratch: Scratch, title: str = ""
    ) -> Outcome:
        """Search for kernels of a task that was made from the module. `title`: what those who watch see."""
        title, tracking = title or type(self.original).__name__, open_tracking(self.config.track)
        with LiveActivity(self.archive, "run", title, self.target_name, tracking=tracking) as live:
            observer = live.observe(shown)
            return Run(
                task, self.target, limits, self.config, self.archive, observer, scratch, self.seed, live=live
            ).play()


def call_arguments(inputs: Any, keywords: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a module's call: `inputs` is its only argument, a sequence of arguments, or a mapping of keywords.

    Raises UsageError for keywords that are named twice.
    """
    import torch

    args: tuple[Any, ...] = ()
    kwargs = dict(keywords or {})
    if isinstance(inputs, Mapping):
        duplicates = sorted(set(inputs) & set(kwargs))
        if duplicates:
            raise UsageError(f"the example inputs name {duplicates[0]} twice")
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
    """Return the target for the device of a module. Raises UsageError where module, arguments and target are not on one device."""
    from .tasks.structure import NotRebuildable, take_apart

    try:
        tensors = take_apart(arguments)[1].leaves
    except NotRebuildable as error:
        raise UsageError(f"the module takes {error}") from error
    devices = {t.device for t in (*tensors, *module.parameters(), *module.buffers())}
    if len(devices) > 1:
        device_names = " and ".join(sorted(map(str, devices)))
        raise UsageError(f"the module and its example inputs are on {device_names}: put both on one device")
    device = next(iter(devices)).type if devices else "cpu"
    if device not in ("cpu", "cuda"):
        raise UsageError(f"the module is on {device}: it must be on cpu or cuda")
    if target is not None and device_of(target) != device:
        raise UsageError(
            f"the module is on {device} and the target is {target}: "
            f"move the module and its inputs first, or leave the target out"
        )
    return target or device


def device_of(target: str) -> str:
    """Return the torch device on which a target's kernels run."""
    return "cpu" if target == "cpu" else "cuda"


def make_target(name: str, config: Config) -> Target:
    """Make the target by name with its compiler. Raises UsageError, ToolchainError."""
    target: Target = plugins.load("targets", name)(config.cache, config.compiler, config.threads)
    return target


def _load(spec: str, scratch: Scratch, config: Config, overrides: dict[str, Any] | None) -> Task:
    """Load a task within the limits of the settings."""
    start_ahead(",".join(config.baselines))
    memory = int(config.memory_gb * 2**30) if config.memory_gb is not None else None
    return load_task(
        spec, scratch=scratch, overrides=overrides, timeout=config.load_timeout, memory_bytes=memory
    )


__all__ = [
    "Budget", "Config", "WarpsmithError", "judge_solution", "optimize", "optimize_task", "run_suite",
]  # fmt: skip
