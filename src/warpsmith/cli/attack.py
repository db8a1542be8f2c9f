"""`judge --attack`: hostile candidates are composed and judged; a table says what was refused, and by which rule."""

from __future__ import annotations

import json as jsonlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..progress import Observer, duration, observer_for
from . import options as o

if TYPE_CHECKING:
    from ..zoo.attack.service import Tally

TARGETS = ("cpu", "cuda")
LINE_INTERVAL_S = 5.0  # between two lines about how it goes


def judge_attack(
    count: int | None, only: int | None, seed: int | None, lanes: int, target: str, json: str | None, quiet: bool
) -> int:  # fmt: skip
    """Judge composed candidates; returns the exit code. A JSON file gets a line for each, and is gone on with if it exists."""
    from ..zoo.attack.composing import compose
    from ..zoo.attack.service import Attack, run_attack
    from ..zoo.attack.summary import is_as_expected, summarise

    if target not in TARGETS:
        raise UsageError(f"--target {target}: attacks are composed for {' and '.join(TARGETS)}")
    attack = Attack(count or 1, seed or 0, target, lanes, only)
    file = Path(json) if json not in (None, "-") else None
    with observer_for(quiet) as observer:
        observer.stage(f"an attack on the judge, seed {attack.seed}")
        tally = run_attack(attack, o.config(), file=file, progress=AttackProgress(observer).show)
    if json == "-":
        print("\n".join(jsonlib.dumps(vars(row)) for row in tally.rows))
    else:
        print(compose(attack.seed, only, target).text if only is not None else "", end="")
        print(summarise(tally, attack))
    return 0 if is_as_expected(tally.rows) else 1


class AttackProgress:
    """Says now and then how far an attack is, and at once what somebody should look at."""

    def __init__(self, observer: Observer) -> None:
        self._observer, self._last = observer, 0.0

    def show(self, tally: Tally) -> None:
        row, time_s = tally.rows[-1], time.monotonic()
        if row.outcome in ("BREACH", "REFUSED", "ERROR"):
            self._observer.note(
                f"{row.outcome} {row.breach} at {row.index}: {row.operator} {row.family}: {row.rule}"
            )
        if time_s - self._last >= LINE_INTERVAL_S or len(tally.rows) == tally.total:
            self._last = time_s
            remaining = duration(tally.seconds_left)
            self._observer.stage(
                f"{len(tally.rows)} of {tally.total} judged: {tally.describe()}, {remaining} left"
            )
