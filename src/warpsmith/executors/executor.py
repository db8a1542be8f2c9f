"""`Executor` is the protocol of what judges candidates for a search; `Screener` of what says before which are worth it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from ..records import Candidate, Result


class Screener(Protocol):
    def screen(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        """Yield in the order of the candidates whether each is worth a verdict: "screened" with an estimate, or why not."""
        ...


class Executor(Protocol):
    def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        """Yield results in the order of the candidates, each as soon as it is there. Never raises for a candidate's fault."""
        ...

    def confirm(self, candidate: Candidate) -> Result:
        """Judge once more in fresh processes with fresh seeds, against every baseline."""
        ...

    def remeasure(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        """Time candidates that were correct once more, one right after the other, as a search does; never from a record of earlier times."""
        ...

    def wait_until_quiet(self, seconds: float) -> bool:
        """Wait until nothing else keeps the machine busy, `seconds` at most; return whether it is quiet."""
        ...
