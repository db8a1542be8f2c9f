"""The savings of steering by the limit, for the report: regions that were left alone, and a budget that was not spent.

In: what `steering` notes while a run goes on. Out: one line each, in words and numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..progress import counted
from ..records import Region


@dataclass
class Savings:
    closed: dict[str, str] = field(default_factory=dict)  # region id → what it was left alone at
    moved: dict[str, float] = field(default_factory=dict)  # region id → its candidates in an even split
    stopped: str = ""  # why the limit ended the run

    def close(self, region: Region, limit_share: float, round: int) -> None:
        """The first time counts. `round` from 0, as everywhere."""
        line = f"region {region.title} left alone at {limit_share:.0%} of its limit from round {round}"
        self.closed.setdefault(region.id, line)

    def move(self, region: str, candidates: float) -> None:
        self.moved[region] = self.moved.get(region, 0.0) + candidates

    def lines(self, evaluations: int | None = None, seconds: float | None = None) -> tuple[str, ...]:
        """`evaluations`, `seconds`: left of the budget when the run stopped; None where it has no such limit."""
        texts = [text + self._elsewhere(region) for region, text in self.closed.items()]
        unspent = _unspent(evaluations, seconds) if self.stopped else ""
        return (*texts, *([f"{unspent} of the budget not spent: {self.stopped}"] if unspent else []))

    def _elsewhere(self, region: str) -> str:
        count = round(self.moved.get(region, 0.0))
        return f"; {counted(count, 'candidate')} of an even split went elsewhere" if count else ""


def _unspent(evaluations: int | None, seconds: float | None) -> str:
    unspent = [counted(evaluations, "evaluation")] if evaluations and evaluations > 0 else []
    return " and ".join([*unspent, *([f"{seconds:.0f} s"] if seconds and seconds >= 0.5 else [])])
