"""The plan of input families and shapes: a few strong ones while searching, all of them to confirm.

In: a task. Out: lists of cases. The main shape gets the task's own inputs at a fresh seed and sign-mixed
ones; the other shapes (ragged, smaller, so cheap) get those that break shortcuts: magnitudes that overflow an
exp, rows without variance. A family on which the reference itself is not finite is skipped by the verifier;
`shuffled` keeps the own values' signs and stands in for such tasks.
"""

from __future__ import annotations

from ...records import Graph, Task
from ..device.memory import live_bytes
from .evidence import Case
from .input_families import FAINT, FAMILIES, OWN, SECRET

STAND_IN = "shuffled"
MAIN_SEARCH = ("normal", SECRET, STAND_IN)
OTHER_SEARCH = ("normal", "large", "constant-rows", STAND_IN)
CONFIRM = ("normal", SECRET, "huge", "shuffled", "heavy", "large", "constant-rows")
ADMISSION = (
    "normal", OWN, "large", "shuffled", "tiny", "constant-rows", "offset", "heavy", "sparse", "close",
    "integers", FAINT,
)  # fmt: skip
LARGE_BYTES = 512 << 20  # of inputs and intermediates
MANY_SHAPES = 3  # beside the main one: of more, a search tries so many, and a confirmation tries two families at each of the others
UNIT_RUNS = 5  # of each unit alone in the isolated runner


class Plan:
    """`seed`: of the families that stay the same over a search, so that their truths are computed once."""

    def __init__(self, task: Task, seed: int, quick: bool) -> None:
        self.task, self.seed, self.quick = task, seed, quick

    def search(self, fresh: Case) -> list[Case]:
        """None for a quick search of what takes long: there the outputs of timed runs are all that is looked at."""
        main = self.task.main.name
        if self.quick and self._large(self.task.main.graph):
            return []
        cases = [fresh, *(Case(main, f, self.seed) for f in MAIN_SEARCH)]
        if not self.quick:
            further = self.task.variants[1 : 1 + MANY_SHAPES]
            cases += [Case(v.name, f, self.seed) for v in further for f in OTHER_SEARCH]
        return cases

    def screen(self, fresh: Case) -> list[Case]:
        """The main shape on its own inputs, and the smallest of the others on sign-mixed ones: what decides who is worth a verdict."""
        other_shapes = [v for v in self.task.variants if v.name != fresh.variant]
        ragged = min(other_shapes, key=lambda v: sum(i.spec.numel for i in v.graph.inputs), default=None)
        return [fresh, *([Case(ragged.name, MAIN_SEARCH[0], self.seed)] if ragged is not None else [])]

    def confirm(self, fresh: Case, seed: int) -> list[Case]:
        """Every family at the smallest shape, the strongest at the others, with a seed of its own; of those that take
        long, and of more than a few shapes, two, the second drawn by the seed. The seed also decides what the secret family is.
        """
        cases = [fresh]
        smallest = min(self.task.variants, key=lambda v: sum(i.spec.numel for i in v.graph.inputs))
        for number, variant in enumerate(self.task.variants):
            families = tuple(FAMILIES) if variant is smallest else CONFIRM
            if variant is not smallest and (number > MANY_SHAPES or self._large(variant.graph)):
                families = (CONFIRM[0], CONFIRM[1 + (seed + number) % (len(CONFIRM) - 1)])
            scaled_by = (
                fresh.seed if variant.name == fresh.variant else None
            )  # large ones take seconds to draw
            cases += [Case(variant.name, f, seed, scaled_by) for f in families]
        return cases

    def _large(self, graph: Graph) -> bool:
        """True where the truth about a case has so many bytes that computing and comparing it takes many seconds."""
        return sum(i.spec.nbytes for i in graph.inputs) + live_bytes(graph) > LARGE_BYTES
