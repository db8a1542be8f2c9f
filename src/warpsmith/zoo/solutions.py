"""Fixtures that are KernelBench solutions, judged as somebody else's solution is.

In: fixtures of the form "modelnew", a target and settings. Out: a finding for each. One judge is opened for each
task; its reference, baselines and admission serve every solution of the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..config import Config
from ..rewards.shaping import reward_solution
from ..solutions.judge import SolutionJudge
from ..solutions.verdict import SolutionVerdict
from ..targets.target import Target
from .fixture import Fixture
from .rows import Finding
from .units import BASELINES, SEED, WIN, by_task

STAGES = ("verify", "time", "trace")  # of one solution; the verdict also holds those of the task


def judge_solutions(
    fixtures: Sequence[Fixture], target: Target, config: Config, progress: Callable[[str], None]
) -> Iterator[tuple[Fixture, Finding]]:
    """Raises what the judge raises when it cannot be opened: JudgeError, TaskError, ToolchainError."""
    for group, task, scratch in by_task(fixtures, config, progress):
        judge = SolutionJudge(
            task, target, scratch=scratch, workdir=scratch.new("zoo"), seed=SEED, baselines=BASELINES,
            quick=True, peaks_cache=config.cache, progress=progress,
        )  # fmt: skip
        with judge:
            judge.open()
            for fixture in group:
                progress(f"judging {fixture.key}")
                yield fixture, finding(judge.judge(fixture.path))


def finding(verdict: SolutionVerdict) -> Finding:
    """A correct verdict is "ok" here, as a kernel's result is."""
    status = "ok" if verdict.verdict == "correct" else verdict.verdict
    reason = "; ".join([*([verdict.rule] if verdict.rule else []), *verdict.reasons])
    seconds = sum(verdict.seconds.get(stage, 0.0) for stage in STAGES)
    return Finding(
        status,
        reason,
        (verdict.label, *verdict.labels, WIN[verdict.win]),
        seconds,
        reward_solution(verdict, 0).reward,
    )
