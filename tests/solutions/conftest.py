"""A judge of solutions, opened once on a test module's own `TASK`, for the target that its `TARGET` names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from warpsmith import plugins
from warpsmith.processes.buffers import Scratch
from warpsmith.solutions.judge import SolutionJudge
from warpsmith.solutions.verdict import SolutionVerdict
from warpsmith.tasks.load import load_task


@pytest.fixture(scope="module")
def judge(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    with_peaks: Callable[[Path], Path],
) -> Iterator[SolutionJudge]:
    folder = tmp_path_factory.mktemp("solutions")
    (folder / "task.py").write_text(request.module.TASK)
    with Scratch() as scratch:
        task = load_task(str(folder / "task.py"), scratch=scratch)
        target = plugins.load("targets", request.module.TARGET)(folder / "cache", threads=2)
        with SolutionJudge(
            task, target, scratch=scratch, workdir=folder / "work", seed=7, baselines=("eager",),
            peaks_cache=with_peaks(folder / "cache"), quick=True,
        ) as opened:  # fmt: skip
            opened.open()
            yield opened


@pytest.fixture
def judged(judge: SolutionJudge, tmp_path: Path) -> Callable[..., SolutionVerdict]:
    """Judges the text of a solution."""

    def judged(text: str, timed: bool = False) -> SolutionVerdict:
        path = tmp_path / "solution.py"
        path.write_text(text)
        return judge.judge(path, timed=timed)

    return judged
