"""One question with at most one follow-up: what could not be read in the first answer is said, and asked for again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ...llm.chat import Chat
from ...records import Exchange, Role
from .answers import Problem, one_line
from .prompts import fence

Value = TypeVar("Value")
MAX_QUOTED_CHARACTERS = 6_000  # characters of a refused answer that are sent back


@dataclass(frozen=True)
class Talk(Generic[Value]):
    """The outcome of a question. `value` is None when neither answer could be used, `problem` then says why."""

    value: Value | None
    problem: str
    exchanges: tuple[Exchange, ...]

    @property
    def usd(self) -> float:
        """The price that was paid, as far as prices are known."""
        return sum(e.usd or 0.0 for e in self.exchanges)

    @property
    def model(self) -> str:
        return self.exchanges[-1].model

    @property
    def first(self) -> bool:
        """True if the first answer was usable."""
        return self.value is not None and len(self.exchanges) == 1


def converse(chat: Chat, role: Role, system: str, prompt: str, read: Callable[[str], Value]) -> Talk[Value]:
    """`read` makes a value of an answer, or raises Problem. Raises what `Chat.ask` raises."""
    first = chat.ask(role, system, prompt)
    value, problem = _read(first, read)
    if value is not None:
        return Talk(value, "", (first,))
    second = chat.ask(role, system, f"{prompt}\n\n{_follow_up(first, problem)}", turn=1)
    value, problem = _read(second, read)
    return Talk(value, problem, (first, second))


def _read(exchange: Exchange, read: Callable[[str], Value]) -> tuple[Value | None, str]:
    if exchange.error:
        return None, one_line(exchange.error, 200)
    try:
        return read(exchange.answer), ""
    except Problem as problem:
        return None, one_line(str(problem), 300)


def _follow_up(exchange: Exchange, problem: str) -> str:
    said = exchange.answer[:MAX_QUOTED_CHARACTERS]
    quoted = f"It began:\n{fence(said)}\n" if said.strip() else ""
    return f"## Your last answer could not be used\n{problem}.\n{quoted}Answer again, in the form asked for."
