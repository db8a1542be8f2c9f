"""Which input families at which shapes: a few strong ones while searching, all of them to confirm.

In: a task. Out: lists of cases. The main shape gets the task's own inputs at a fresh seed and sign-mixed
ones; the other shapes (ragged, smaller, so cheap) get those that break shortcuts: magnitudes that overflow an
exp, rows without variance. A family on which the reference itself is not finite is skipped by the verifier;
`shuffled` keeps the own values' signs and stands in for such tasks.
"""

from __future__ import annotations

from ..records import Task
from .evidence import Case
from .families import FAMILIES, OWN

STAND_IN = "shuffled"
MAIN_SEARCH = ("normal", STAND_IN)
OTHER_SEARCH = ("normal", "large", "constant-rows", STAND_IN)
CONFIRM = ("normal", "shuffled", "heavy", "large", "constant-rows")
ADMISSION = (
    "normal", OWN, "large", "shuffled", "tiny", "constant-rows", "offset", "heavy", "sparse", "close",
    "integers",
)  # fmt: skip
UNIT_RUNS = 5  # of each unit alone in the isolated runner


class Plan:
    """`seed`: of the families that stay the same over a search, so that their truths are computed once."""

    def __init__(self, task: Task, seed: int, quick: bool) -> None:
        self.task, self.seed, self.quick = task, seed, quick

    def search(self, fresh: Case) -> list[Case]:
        main = self.task.main.name
        cases = [fresh, *(Case(main, f, self.seed) for f in MAIN_SEARCH)]
        if not self.quick:
            cases += [Case(v.name, f, self.seed) for v in self.task.variants[1:] for f in OTHER_SEARCH]
        return cases

    def confirm(self, fresh: Case, seed: int) -> list[Case]:
        """Every family at the smallest shape, the strongest at the others, with a seed of its own."""
        cases = [fresh]
        smallest = min(self.task.variants, key=lambda v: sum(i.spec.numel for i in v.graph.inputs))
        for variant in self.task.variants:
            families = tuple(FAMILIES) if variant is smallest else CONFIRM
            cases += [Case(variant.name, f, seed) for f in families]
        return cases
