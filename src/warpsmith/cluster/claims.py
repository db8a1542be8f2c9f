"""The wins that workers claim, until another worker has judged them again.

In: claims, and what others say of them. Out: which idle worker is to judge which claim, and what became of it. A worker never judges a
run that it played, or a part of which it played. When two contradict each other a third of their kind decides; where there is none,
the claim does not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..bundles.bundle import Bundle
from ..pipeline.suite import PlannedRun
from ..records import Result, RunSummary
from .members import Member
from .shipping import ArrivedRun
from .trust import Word, is_same_kind


@dataclass(eq=False)
class Claim:
    """A win that waits for the word of another worker."""

    run: PlannedRun
    summary: RunSummary
    arrived: ArrivedRun
    result: Result
    bundle: Bundle
    member: Member  # who claims it
    players: set[tuple[str, int]]  # slots that played a part of the run
    refuted_by: list[Member] = field(default_factory=list)
    judges: set[tuple[str, int]] = field(default_factory=set)
    word: Word | None = None  # the last that was no confirmation

    def may_judge(self, member: Member) -> bool:
        """Return whether a worker is of the claim's kind of hardware, and had no part in it."""
        if member.aside or member.slot.key in self.players | self.judges:
            return False
        return member.hello is None or is_same_kind(member.hello.environment, self.arrived.run.environment)


class Claims:
    def __init__(self) -> None:
        self.waiting: list[Claim] = []

    def find_for(self, member: Member) -> Claim | None:
        """Find the oldest claim that a worker which has nothing to do may judge."""
        return next((c for c in self.waiting if c.may_judge(member)), None)

    def list_hopeless(self, members: Iterable[Member]) -> list[Claim]:
        """List the claims that no worker, idle or not, can judge."""
        workers = list(members)
        return [c for c in self.waiting if not any(c.may_judge(m) for m in workers)]
