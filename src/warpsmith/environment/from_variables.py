"""The scorer of trainers that take a file with a function and nothing else: its settings come from the environment's variables.

In: `WARPSMITH_SERVER`, `WARPSMITH_TOKEN_FILE` (none: the judge is in this process), `WARPSMITH_TARGET`, `WARPSMITH_REWARD_MODE`,
`WARPSMITH_REWARD_CONFIRM`. Out: a `Scorer`, one a process.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TypeVar, get_args

from ..authoring.jobs import Confirm
from ..errors import UsageError
from ..rewards.reward import RewardMode
from .scoring import Scorer, make_scorer

MODES: tuple[RewardMode, ...] = get_args(RewardMode)
CONFIRM: tuple[Confirm, ...] = get_args(Confirm)
Choice = TypeVar("Choice", bound=str)


@cache
def find_scorer() -> Scorer:
    """Open it, once. Raises UsageError, one line, for a variable with a wrong value."""
    server, token_file = os.environ.get("WARPSMITH_SERVER"), os.environ.get("WARPSMITH_TOKEN_FILE")
    mode, confirm = _choose("WARPSMITH_REWARD_MODE", MODES), _choose("WARPSMITH_REWARD_CONFIRM", CONFIRM)
    return make_scorer(
        server=server, token=_read_token(token_file) if server else None, target=os.environ.get("WARPSMITH_TARGET", "cpu"), mode=mode,
        confirm=confirm,
    )  # fmt: skip


def _choose(variable: str, choices: tuple[Choice, ...]) -> Choice:
    name = os.environ.get(variable, choices[0])
    choice = next((c for c in choices if c == name), None)
    if choice is None:
        raise UsageError(f"{variable}={name[:40]}: give one of {', '.join(choices)}")
    return choice


def _read_token(file: str | None) -> str:
    if file is None:
        raise UsageError("WARPSMITH_SERVER needs WARPSMITH_TOKEN_FILE, which holds the server's token")
    from ..serving.access import read_token

    return read_token(Path(file))


__all__ = ["find_scorer"]
