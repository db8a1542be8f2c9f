"""What a run has spent of its budget: evaluations, wall time and money are counted apart."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ..progress import counted
from ..records import Budget


@dataclass
class Meter:
    budget: Budget
    reserve: float = 0.0  # seconds kept for the confirmation of winners
    evaluations: int = 0
    usd: float = 0.0
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def seconds_left(self) -> float | None:
        """Until the search must end; None without a limit."""
        return None if self.budget.seconds is None else self.budget.seconds - self.reserve - self.seconds

    @property
    def evaluations_left(self) -> int | None:
        return None if self.budget.evaluations is None else self.budget.evaluations - self.evaluations

    def exhausted(self) -> str | None:
        """Which limit was reached, in words; None while there is room."""
        if self.evaluations_left is not None and self.evaluations_left <= 0:
            return f"budget of {counted(self.budget.evaluations or 0, 'evaluation')} spent"
        if self.seconds_left is not None and self.seconds_left <= 0:
            return f"time of {self.budget.seconds:.0f} s spent"
        if self.budget.usd is not None and self.usd >= self.budget.usd:
            return f"budget of ${self.budget.usd:.2f} spent"
        return None
