"""`LocalExecutor` judges candidates in processes of this machine."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence

from ..judge.judge import Judge
from ..judge.screening import ScreeningJudge
from ..machine import wait_until_quiet
from ..profile.code_profile import CodeProfiler
from ..profile.demote import sanitize_winner
from ..records import Candidate, Result


class LocalExecutor:
    """`spent` is the wall time so far by what was done ("screening", "judging", "confirmation"), the caller's own work between two
    results left out.
    """

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.spent: defaultdict[str, float] = defaultdict(float)
        self._code_profiler = CodeProfiler()

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        return self._count("judging", self._complete(candidates, self.judge.evaluate(candidates)))

    def screen(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        if not isinstance(self.judge, ScreeningJudge):
            raise TypeError("this judge has one tier")
        return self._count("screening", self._complete(candidates, self.judge.screen(candidates)))

    def remeasure(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        return self._count("confirmation", self.judge.remeasure(candidates))

    def wait_until_quiet(self, seconds: float) -> bool:
        return wait_until_quiet(seconds, self.judge.environment.threads, self.judge.device)

    def confirm(self, candidate: Candidate) -> Result:
        """Judge again in fresh processes; a win must also pass the sanitizers."""
        start = time.monotonic()
        try:
            result = sanitize_winner(self.judge.confirm(candidate), candidate, self.judge)
            return self._code_profiler.complete(result, candidate)
        finally:
            self.spent["confirmation"] += time.monotonic() - start

    def _complete(self, candidates: Sequence[Candidate], results: Iterator[Result]) -> Iterator[Result]:
        for candidate, result in zip(candidates, results, strict=True):
            yield self._code_profiler.complete(result, candidate)

    def _count(self, stage: str, results: Iterator[Result]) -> Iterator[Result]:
        while True:
            start = time.monotonic()
            result = next(results, None)
            self.spent[stage] += time.monotonic() - start
            if result is None:
                return
            yield result
