"""`LocalExecutor` judges candidates in processes of this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from ..judge.judge import Judge
from ..judge.screening import ScreeningJudge
from ..machine import wait_until_quiet
from ..profile.code_profile import CodeProfiler
from ..profile.demote import sanitize_winner
from ..records import Candidate, Result


class LocalExecutor:
    """`seconds` is the wall time spent judging so far, the caller's own work between two results left out."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.seconds = 0.0
        self._code_profiler = CodeProfiler()

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        results = self.judge.evaluate(candidates)
        for candidate in candidates:
            start = time.monotonic()
            result = self._code_profiler.complete(next(results), candidate)
            self.seconds += time.monotonic() - start
            yield result

    def screen(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        if not isinstance(self.judge, ScreeningJudge):
            raise TypeError("this judge has one tier")
        start = time.monotonic()
        for candidate, result in zip(candidates, self.judge.screen(candidates), strict=True):
            self.seconds += time.monotonic() - start
            yield self._code_profiler.complete(result, candidate)
            start = time.monotonic()

    def remeasure(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        start = time.monotonic()
        for result in self.judge.remeasure(candidates):
            self.seconds += time.monotonic() - start
            yield result
            start = time.monotonic()

    def wait_until_quiet(self, seconds: float) -> bool:
        return wait_until_quiet(seconds, self.judge.environment.threads, self.judge.device)

    def confirm(self, candidate: Candidate) -> Result:
        """Judge again in fresh processes; a win must also pass the sanitizers."""
        start = time.monotonic()
        try:
            result = sanitize_winner(self.judge.confirm(candidate), candidate, self.judge)
            return self._code_profiler.complete(result, candidate)
        finally:
            self.seconds += time.monotonic() - start
