"""A judge that is open on a task given as text, for whole modules of tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from warpsmith.judge.judge import Judge
from warpsmith.processes.buffers import Scratch
from warpsmith.targets.cpu import CpuTarget
from warpsmith.tasks.load import load_task


@pytest.fixture
def scratch() -> Iterator[Scratch]:
    with Scratch() as made:
        yield made


@pytest.fixture(scope="session")
def open_judge(
    tmp_path_factory: pytest.TempPathFactory,
    with_peaks: Callable[[Path], Path],
    few_rounds: Callable[[], AbstractContextManager[None]],
) -> Callable[..., Any]:
    """open_judge(text, **options) → a context manager; against eager alone, seed 7, few rounds of a confirmation. `kind`: of judge;
    `begun`: the caller opens it.
    """

    @contextmanager
    def opened(text: str, kind: type[Judge] = Judge, begun: bool = False, **options: Any) -> Iterator[Judge]:
        folder: Path = tmp_path_factory.mktemp("judge")
        (folder / "task.py").write_text(text)
        with few_rounds(), Scratch() as scratch:
            task = load_task(str(folder / "task.py"), scratch=scratch)
            target = CpuTarget(folder / "cache", threads=2)
            with kind(
                task, target, scratch=scratch, workdir=folder / "work", seed=7, peaks_cache=with_peaks(folder / "cache"),
                **{"baselines": ("eager",)} | options,
            ) as judge:  # fmt: skip
                if not begun:
                    judge.open()
                yield judge

    return opened
