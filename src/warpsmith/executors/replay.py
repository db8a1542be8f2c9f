"""`ReplayExecutor` replaces the judge by recorded results, so that a search is tested in milliseconds, without a compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ..records import Candidate, Result


class ReplayExecutor:
    """Answers from a table by content key. `missing` answers for candidates that were never recorded (default: refused, and says so)."""

    def __init__(
        self, recorded: Mapping[str, Result], missing: Callable[[Candidate], Result] | None = None
    ) -> None:
        self.recorded, self.missing = recorded, missing or _not_recorded
        self.asked: list[str] = []

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        for candidate in candidates:
            self.asked.append(candidate.content_key)
            yield self.recorded.get(candidate.content_key) or self.missing(candidate)

    def confirm(self, candidate: Candidate) -> Result:
        result = next(iter(self.run([candidate])))
        if result.timing is None:
            return result
        return result.model_copy(update={"timing": result.timing.model_copy(update={"confirmed": True})})

    def remeasure(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        return self.run(candidates)

    def wait_until_quiet(self, seconds: float) -> bool:
        return True


def _not_recorded(candidate: Candidate) -> Result:
    return Result(
        candidate_id=candidate.id, content_key=candidate.content_key, task_id=candidate.task_id, target=candidate.target,
        status="refused", reason="not in the recording",
    )  # fmt: skip
