"""The contract of everybody who asks a language model: one method, one answer, failure as a value."""

from __future__ import annotations

from typing import Protocol

from ..records import Exchange, Role, content_hash

PASSING = "passing fault: "  # how the error of an exchange begins that may go well at another time
CUT = f"{PASSING}under way when the run had to end, so that its cost is not known: "  # and of one that was not waited for


RUN_ENDS = "# Your task now"  # how the line begins with which a prompt leaves what is the same in all questions of a run


class BudgetSpent(Exception):
    """No further question may be asked; the message says which limit was reached. `cut`: the question that was under way."""

    def __init__(self, reason: str, cut: Exchange | None = None) -> None:
        super().__init__(reason)
        self.cut = cut


class Chat(Protocol):
    def ask(self, role: Role, system: str, prompt: str, turn: int = 0) -> Exchange:
        """The exchange, new or recorded. `turn` tells repetitions of one question apart.

        A question that got no usable answer (refused, cut off, empty, timed out after retries) comes back with its
        `error`. Raises BudgetSpent before a question that a limit forbids, ModelError when the endpoint is dead, the
        key is refused, or a recording holds no answer.
        """
        ...


class Ledger(Protocol):
    """A store of exchanges, so that none is paid for twice."""

    def find_exchange(self, run_id: str, key: str) -> Exchange | None: ...

    def add_exchange(self, run_id: str, exchange: Exchange) -> None: ...


class Purse(Protocol):
    """The money that a run may still spend; all its models draw on one."""

    @property
    def seconds_left(self) -> float | None:
        """None: no limit of time."""
        ...

    def find_reached_limit(self) -> str | None:
        """Which limit was reached, in words; None while there is room."""
        ...

    def book(self, exchange: Exchange) -> None: ...


def question_key(role: Role, model: str, system: str, prompt: str, turn: int) -> str:
    """The same for the same question to the same model."""
    return content_hash([role, model, system, prompt, turn])
