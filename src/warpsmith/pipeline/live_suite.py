"""A suite as others see it while it runs: how many runs are done, which wait, and a stop between two of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ..archive.store import Archive
from ..errors import Interrupted
from ..records import Budget, RunSummary
from .live import LiveActivity
from .suite import Finished, Suite

MAX_WAITING = 300  # runs named in the state


@dataclass(frozen=True)
class SuitePlace:
    """The place of a run in a suite, for those who watch. `lane`: from 1; 0: the suite has none."""

    suite: str = ""  # id of its activity
    lane: int = 0
    gpu: str = ""


class LiveSuite(LiveActivity):
    """Hears of each finished run, and passes it on."""

    def __init__(
        self, archive: Archive, name: str, suite: Suite, budget: Budget, finished: Finished | None
    ) -> None:
        self._names, self._finished = [run.name for run in suite.plan()], finished
        self._runs = len(self._names)
        self._statuses: Counter[str] = Counter()
        super().__init__(
            archive, "suite", name, suite.target, runs=self._runs, waiting=tuple(self._names[:MAX_WAITING]), budget=budget
        )  # fmt: skip

    def add_finished(self, summary: RunSummary, left: int) -> None:
        self._statuses[summary.status] += 1
        if summary.task in self._names:
            self._names.remove(summary.task)
        self.change(
            runs_done=self._statuses.total(), outcomes=dict(self._statuses), waiting=tuple(self._names[:MAX_WAITING])
        )  # fmt: skip
        self.finish(f"{self._statuses.total()} of {self._runs} runs done")
        if self._finished is not None:
            self._finished(summary, left)

    def is_stopped(self) -> bool:
        return bool(self.stopped)

    def raise_if_stopped(self, done: int) -> None:
        """Raise Interrupted where runs are left because somebody stopped the suite."""
        if self.stopped and done < self._runs:
            raise Interrupted(
                f"{self.stopped}: {done} of {self._runs} runs are done; the same command goes on from there"
            )
