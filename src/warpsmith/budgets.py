"""Budgets as people write them: "90s", "2m", a number of seconds, or a `Budget`.

In: what a flag or an argument holds. Out: seconds, or a `Budget`. Raises UsageError, one line, for anything else.
"""

from __future__ import annotations

import math
import re

from .errors import UsageError
from .records import Budget

SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
BudgetLike = Budget | str | float


def parse_seconds(text: str) -> float | None:
    """ "120s" → 120.0, "2m" → 120.0, "1.5h" → 5400.0; None for what is no time."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in SECONDS:
        return None
    return float(match[1]) * SECONDS[match[2]]


def parse_budget(budget: BudgetLike | None) -> Budget:
    """The budget that is meant; the usual one for None. A time is the only limit: candidates are not counted then."""
    if budget is None:
        return Budget()
    if isinstance(budget, Budget):
        return budget
    seconds = parse_seconds(budget) if isinstance(budget, str) else _number(budget)
    if seconds is None or not 0 < seconds < math.inf:
        raise UsageError(
            f'budget={budget!r} is no time to search for: give "90s", "2m", a number of seconds, or a warpsmith.Budget'
        )
    return Budget(evaluations=None, seconds=seconds)


def share_budget(budget: Budget, share: float) -> Budget:
    """Return that share of each limit, a candidate at the least."""
    shares: dict[str, float] = {n: v * share for n, v in budget.model_dump().items() if v is not None}
    for name in {"evaluations", "tokens"} & shares.keys():
        shares[name] = max(1, round(shares[name]))
    return budget.model_copy(update=shares)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
