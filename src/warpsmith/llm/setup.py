"""Which model plays which role, checked before any work, and the Chat of each role.

In: the settings, the budget, the run's purse and record. Out: a Chat for each role that a model plays; a role without
one is the expert's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ..config import Config
from ..errors import UsageError
from ..records import ROLES, Budget, Role
from .background import Background
from .chat import Chat, Ledger, Purse
from .client import ModelClient, Patience
from .ensemble import Ensemble
from .prices import Price, parse_price
from .providers import (
    COMPATIBLE,
    build,
    check_base_url,
    find_base_url,
    keys_found,
    parse_provider,
    release,
    secrets,
)
from .recording import Record, Recorded, Replay

EXPERT = "expert"
SETTING: Mapping[Role, str] = {
    "reasoning": "reasoner",
    "synthesis": "synthesizer",
    "compile": "mender",
    "correctness": "checker",
    "orchestrator": "orchestrator",
}


def models_of(config: Config) -> dict[Role, tuple[str, ...]]:
    """The models of each role, several for an ensemble; the expert's roles are left out. Raises UsageError."""
    played: dict[Role, tuple[str, ...]] = {}
    for role in ROLES:
        text = getattr(config, SETTING[role]) or config.model or EXPERT
        names = tuple(dict.fromkeys(n.strip() for n in text.split(",") if n.strip()))
        if names == (EXPERT,):
            continue
        if EXPERT in names or not names:
            raise UsageError(f"setting {SETTING[role]}: {text!r}: name models, or the expert alone")
        for name in names:
            parse_provider(name)
        played[role] = names
    return played


def check(config: Config, budget: Budget) -> None:
    """Raises UsageError when a run with these settings could not ask its models or keep its limits."""
    names = _all(models_of(config))
    if config.price is not None:
        parse_price(config.price)
    if not names:
        for setting, value in (("--usd", budget.usd), ("--tokens", budget.tokens)):
            if value is not None:
                raise UsageError(
                    f"{setting} limits language models, and none plays a role: name one with --model"
                )
        return
    if config.base_url is not None:
        check_base_url(config.base_url)
        if not any(parse_provider(n) in COMPATIBLE for n in names):
            raise UsageError("--base-url serves models named openai:NAME, and no role has one")
    for name in names:
        build(name, config)
    unpriced = [n for n in names if not _price(n, config).known]
    if unpriced and budget.usd is not None:
        raise UsageError(
            f"no price is known for {unpriced[0]}, so --usd cannot be kept: limit --tokens, or set "
            "price = \"in/out\" (dollars per million tokens)"
        )  # fmt: skip


@contextmanager
def open_chats(
    config: Config, purse: Purse, ledger: Ledger, run_id: str, seed: int = 0, patience: Patience | None = None
) -> Iterator[dict[Role, Chat]]:
    """Chats over the network, recorded under `run_id`. One model has one client, whatever roles it plays."""
    played = models_of(config)
    if not played:
        yield {}
        return
    models = {name: build(name, config) for name in _all(played)}
    background = Background(config.model_concurrency)
    try:
        chats: dict[str, Chat] = {}
        for name, model in models.items():
            client = ModelClient(
                name, model, _settings(config), _price(name, config), purse, background, secrets(), patience
            )
            chats[name] = Recorded(client, Record(ledger, run_id, name, purse))
        yield _by_role(played, chats, seed)
    finally:
        background.close(*(release(model) for model in models.values()))


def open_replayed_chats(
    config: Config, purse: Purse, ledger: Ledger, run_id: str, seed: int = 0
) -> dict[Role, Chat]:
    """Chats that answer from the record of a run: no network, no key, no pydantic-ai."""
    played = models_of(config)
    chats: dict[str, Chat] = {n: Replay(Record(ledger, run_id, n, purse)) for n in _all(played)}
    return _by_role(played, chats, seed)


def models_line() -> tuple[str, bool, str]:
    """For `doctor`: whether models can be asked, and which keys are there, by name."""
    try:
        installed = f"pydantic-ai {version('pydantic-ai-slim')}"
    except PackageNotFoundError:
        return (
            "models",
            True,
            "the expert plays every role; for language models: pip install 'warpsmith[llm]'",
        )
    return "models", True, f"{installed}; keys: {', '.join(keys_found()) or 'none in the environment'}"


def _all(played: Mapping[Role, tuple[str, ...]]) -> list[str]:
    """Each model once."""
    return list(dict.fromkeys(name for names in played.values() for name in names))


def _by_role(
    played: Mapping[Role, tuple[str, ...]], chats: Mapping[str, Chat], seed: int
) -> dict[Role, Chat]:
    return {
        role: chats[names[0]] if len(names) == 1 else Ensemble({n: chats[n] for n in names}, seed)
        for role, names in played.items()
    }


def _price(name: str, config: Config) -> Price:
    return Price(name, find_base_url(name, config), config.price)


def _settings(config: Config) -> dict[str, Any]:
    """pydantic-ai's settings of a request. The system text is the same for many questions: it is cached where the
    provider has a cache. Retries are ours, so that they are bounded and counted in one place.
    """
    settings: dict[str, Any] = {
        "max_tokens": config.max_answer_tokens, "request_timeout": config.model_timeout, "max_retries": 0,
        "cache": {"messages": False},
    }  # fmt: skip
    return settings if config.temperature is None else settings | {"temperature": config.temperature}
