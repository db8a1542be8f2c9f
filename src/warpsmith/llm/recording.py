"""Every exchange is kept, and none is paid for twice.

`Recorded` asks a model and keeps what came back, at once; a run that was killed and goes on finds its answers there.
`Replay` has the record only. An exchange that is taken from the record counts against the run's limits, once, with what
it cost when it was made: the limits are over the whole run.
"""

from __future__ import annotations

import threading
from collections import defaultdict

from ..errors import ModelError
from ..records import Exchange, Role
from .chat import CUT, PASSING, BudgetSpent, Chat, Ledger, Purse, question_key


class Record:
    """The exchanges of one run with one model."""

    def __init__(self, ledger: Ledger, run_id: str, model: str, purse: Purse) -> None:
        self.run_id, self.model = run_id, model
        self._ledger, self._purse = ledger, purse
        self._booked: set[str] = set()

    def find(self, key: str) -> Exchange | None:
        """Return what is kept for the question. A fault that may have passed since is nothing, until this process met it too."""
        exchange = self._ledger.find_exchange(self.run_id, key)
        if exchange is None or (exchange.error.startswith(PASSING) and key not in self._booked):
            return None
        self._book(exchange)
        return exchange

    def replay(self, key: str) -> Exchange | None:
        """Return what is kept for the question, whatever it is."""
        exchange = self._ledger.find_exchange(self.run_id, key)
        if exchange is not None:
            self._book(exchange)
        return exchange

    def add(self, exchange: Exchange) -> None:
        self._booked.add(exchange.key)  # by who asked
        self._ledger.add_exchange(self.run_id, exchange)

    def add_cut(self, spent: BudgetSpent) -> None:
        """Keep the question that was under way, if there was one: a run that goes on asks it again."""
        if spent.cut is not None:
            self._ledger.add_exchange(self.run_id, spent.cut)

    def _book(self, exchange: Exchange) -> None:
        if exchange.key not in self._booked:
            self._booked.add(exchange.key)
            self._purse.book(exchange)


class Recorded:
    """Asks only what the record does not hold. Threads that ask the same at once get the one answer."""

    def __init__(self, chat: Chat, record: Record) -> None:
        self._chat, self._record = chat, record
        self._asking: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def ask(self, role: Role, system: str, prompt: str, turn: int = 0) -> Exchange:
        key = question_key(role, self._record.model, system, prompt, turn)
        with self._asking[key]:
            recorded = self._record.find(key)
            if recorded is not None:
                return recorded
            try:
                exchange = self._chat.ask(role, system, prompt, turn)
            except BudgetSpent as spent:
                self._record.add_cut(spent)
                raise
            self._record.add(exchange)
            return exchange


class Replay:
    """Answers from the record alone: no network, no key, no cost."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def ask(self, role: Role, system: str, prompt: str, turn: int = 0) -> Exchange:
        exchange = self._record.replay(question_key(role, self._record.model, system, prompt, turn))
        if exchange is None:
            raise ModelError(
                f"run {self._record.run_id} holds no answer to this question of the {role} agent to "
                f"{self._record.model}: replay it with the task, settings and version it was made with"
            )
        if exchange.error.startswith(CUT):
            raise BudgetSpent(exchange.error.removeprefix(CUT))
        return exchange
