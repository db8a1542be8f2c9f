"""Judges the fixtures that are kernels by the judge that a search uses.

In: fixtures of one form, a target and settings. Out: a finding for each. One judge is opened for each task, and
all fixtures of the task go through one `evaluate`: build, verify, time as deployed, check the timed outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from ..config import Config
from ..judge.judge import Judge
from ..processes.buffers import Scratch
from ..records import Candidate, Result, Task
from ..rewards.shaping import reward_result
from ..targets.front_matter import unit_from_source
from ..targets.target import Target
from ..tasks.load import load_task
from ..tasks.regions import make_region
from .fixture import Fixture
from .rows import Finding

SEED = 20260
BASELINES = ("eager",)
WIN = ("no win", "win")  # by whether the interval of the speedup lies above 1


def judge_units(
    fixtures: Sequence[Fixture], target: Target, config: Config, progress: Callable[[str], None]
) -> Iterator[tuple[Fixture, Finding]]:
    """Judge fixtures task by task. Raises what the judge raises when it cannot be opened: JudgeError, TaskError, ToolchainError."""
    for group, task, scratch in by_task(fixtures, config, progress):
        yield from _judge_on_task(group, task, target, scratch, config.cache, progress)


def by_task(
    fixtures: Sequence[Fixture], config: Config, progress: Callable[[str], None]
) -> Iterator[tuple[list[Fixture], Task, Scratch]]:
    """Yield the fixtures of each task in turn, with the task loaded and a folder for its judge."""
    ordered = sorted(fixtures, key=lambda f: (f.task, f.name))
    for task_file, group in groupby(ordered, key=lambda f: f.task_file):
        with Scratch() as scratch:
            progress(f"loading {task_file.stem}")
            yield (
                list(group),
                load_task(str(task_file), scratch=scratch, timeout=config.load_timeout),
                scratch,
            )


def _judge_on_task(
    fixtures: list[Fixture], task: Task, target: Target, scratch: Scratch, cache: Path,
    progress: Callable[[str], None],
) -> Iterator[tuple[Fixture, Finding]]:  # fmt: skip
    judge = Judge(
        task, target, scratch=scratch, workdir=scratch.new("zoo"), seed=SEED, baselines=BASELINES, quick=False,
        peaks_cache=cache, progress=progress,
    )  # fmt: skip
    with judge:
        judge.open()
        progress(f"judging {len(fixtures)} kernels on {task.name}")
        candidates = [candidate(f, task, target) for f in fixtures]
        results = list(judge.evaluate(candidates))
        for fixture, candidate_of_fixture, result in zip(fixtures, candidates, results, strict=True):
            unseen = result.status == "ok" and fixture.statuses not in ((), ("label",))
            # A search checks one timed call; no speedup is claimed without a confirmation, which checks more.
            yield fixture, finding(judge.confirm(candidate_of_fixture) if unseen else result)


def candidate(fixture: Fixture, task: Task, target: Target) -> Candidate:
    """Make a candidate whose only unit covers the whole graph."""
    region = make_region(task.graph, [n.name for n in task.graph.nodes])
    unit = unit_from_source(fixture.source(), region).model_copy(update={"language": target.language})
    return Candidate(task_id=task.id, target=target.name, units=(unit,))


def finding(result: Result) -> Finding:
    labels = result.verdict.labels if result.verdict is not None else ()
    reward, seconds = reward_result(result, 0).reward, sum(result.seconds.values())
    return Finding(result.status, result.reason, (*labels, WIN[result.win]), seconds, reward)
