"""A model on loopback, asked the way a run asks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from warpsmith.config import Config
from warpsmith.llm.chat import Chat
from warpsmith.llm.client import Patience
from warpsmith.llm.scripted_server import Script, ScriptedServer
from warpsmith.llm.setup import open_chats
from warpsmith.records import Budget, Exchange
from warpsmith.search.meter import Meter

CANARY = "sk-CANARY-0123456789"
QUICK = Patience(first=0.01)


class MemoryLedger:
    """A ledger in memory. As in the archive, only a failed exchange makes way for another."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Exchange] = {}

    def find_exchange(self, run_id: str, key: str) -> Exchange | None:
        return self.kept.get((run_id, key))

    def add_exchange(self, run_id: str, exchange: Exchange) -> None:
        old = self.kept.get((run_id, exchange.key))
        if old is None or old.error:
            self.kept[run_id, exchange.key] = exchange


class Asking:
    """A server with a script, the chat of the reasoning role, and what it spends."""

    def __init__(self, server: ScriptedServer, chat: Chat, meter: Meter, ledger: MemoryLedger) -> None:
        self.server, self.chat, self.meter, self.ledger = server, chat, meter, ledger

    def ask(self, prompt: str = "question", turn: int = 0) -> Exchange:
        return self.chat.ask("reasoning", "be brief", prompt, turn)


@pytest.fixture
def canary() -> str:
    """The key that the server is sent; it must be found nowhere else."""
    return CANARY


@pytest.fixture
def ledger() -> MemoryLedger:
    return MemoryLedger()


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Asking]]:
    """`asking(script, budget=…, patience=…, **settings)` starts a server and opens the chats on it."""
    monkeypatch.setenv("WARPSMITH_API_KEY", CANARY)
    with ExitStack() as stack:

        def start(
            script: Script, budget: Budget | None = None, patience: Patience = QUICK, ledger: MemoryLedger | None = None,
            **settings: Any,
        ) -> Asking:  # fmt: skip
            server = stack.enter_context(ScriptedServer(script))
            config = Config(**({"model": "openai:scripted", "base_url": server.base_url} | settings))
            meter, ledger = Meter(budget or Budget(evaluations=None, seconds=None)), ledger or MemoryLedger()
            chats = stack.enter_context(open_chats(config, meter, ledger, "run", patience=patience))
            return Asking(server, chats["reasoning"], meter, ledger)

        yield start
