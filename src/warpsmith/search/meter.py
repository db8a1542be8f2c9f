"""The meter of what a run has spent of its budget: evaluations, time to search, tokens and money are counted apart."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from ..progress import counted
from ..records import Budget, Exchange


@dataclass
class Meter:
    budget: Budget
    confirmation: float = 0.0  # seconds that confirmations may take, after the search's own
    evaluations: int = 0  # verdicts
    screened: int = 0
    tokens: int = 0
    usd: float = 0.0  # of exchanges whose price is known
    stopped: str = ""  # why somebody wants the search to end; any thread may say so
    started: float = field(default_factory=time.monotonic)
    _booking: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def book(self, exchange: Exchange) -> None:
        """Count what an exchange with a language model cost. Any thread may call."""
        with self._booking:
            self.tokens += exchange.usage.input_tokens + exchange.usage.output_tokens
            self.usd += exchange.usd or 0.0

    def start(self) -> None:
        """The search begins: the set-up is not counted in its time."""
        self.started = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def seconds_left(self) -> float | None:
        """Until the search must end; None without a limit."""
        return None if self.budget.seconds is None else self.budget.seconds - self.seconds

    @property
    def seconds_in_all(self) -> float | None:
        """Until the confirmations must end, too; None without a limit."""
        return None if self.seconds_left is None else self.seconds_left + self.confirmation

    @property
    def evaluations_left(self) -> int | None:
        return None if self.budget.evaluations is None else self.budget.evaluations - self.evaluations

    def describe_left(self) -> str:
        """Say what is left of the budget, without time, which a run that is resumed or replayed has another amount of."""
        b = self.budget
        parts = [counted(self.evaluations_left, "verdict")] if self.evaluations_left is not None else []
        parts += [f"{max(0, b.tokens - self.tokens):,} tokens"] if b.tokens is not None else []
        parts += [f"${max(0.0, b.usd - self.usd):.2f}"] if b.usd is not None else []
        return ", ".join(parts)

    def find_reached_limit(self) -> str | None:
        """Which limit was reached, in words, or who stopped it; None while there is room."""
        if self.stopped:
            return self.stopped
        if self.evaluations_left is not None and self.evaluations_left <= 0:
            return f"budget of {counted(self.budget.evaluations or 0, 'evaluation')} spent"
        if self.seconds_left is not None and self.seconds_left <= 0:
            return f"time of {self.budget.seconds:.0f} s spent"
        if self.budget.tokens is not None and self.tokens >= self.budget.tokens:
            return f"budget of {counted(self.budget.tokens, 'token')} spent"
        if self.budget.usd is not None and self.usd >= self.budget.usd:
            return f"budget of ${self.budget.usd:.2f} spent"
        return None
