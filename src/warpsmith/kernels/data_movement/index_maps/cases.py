"""A mapping's choices as ranges of the loops: what is left inside has no branch.

In: `Loops`, and for the loops that run over a range its ends. Out: nested blocks of C++, one for each combination of
choices, each with narrower ranges; `leaf` writes what is in them. A choice that depends on the outer loops only
becomes an `if`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....codegen.program import Expr, Unsupported
from ....codegen.writer import Writer
from .index_symbols import Index, Sym
from .map_loops import Loops
from .pull import Choice

MAX_LEAVES = 48
Made = dict[tuple[Index, tuple[Sym, ...]], int]  # choices that were made: key → case
Ranges = dict[int, tuple[str, str]]  # group → first, end


@dataclass(frozen=True)
class Leaf:
    """Straight code: `steps` in order, the last value is `root`; over `ranges`."""

    steps: tuple[Expr, ...]
    root: str
    ranges: Ranges


class Cases:
    def __init__(self, w: Writer, loops: Loops, leaf: Callable[[Leaf], None]) -> None:
        self.w, self.loops, self.mapping = w, loops, loops.mapping
        self._leaf = leaf
        self._cuts = 0
        self._leaves = 0

    def write(self, ranges: Ranges, written: Made | None = None) -> None:
        """Raises Unsupported."""
        written = written or {}
        choice = self._next(self.mapping.root, written)
        if choice is None:
            self._leaves += 1
            if self._leaves > MAX_LEAVES:
                raise Unsupported("too many cases")
            steps, root = self._straight(written)
            self._leaf(Leaf(steps, root, ranges))
            return
        over = {self.loops.where[v] for v, _ in choice.index.terms} & set(ranges)
        if not over:
            self._branch(choice, ranges, written)
        elif len(over) == 1:
            self._ranges(choice, over.pop(), ranges, written)
        else:
            raise Unsupported("a choice by two loops at once")

    def _next(self, name: str, written: Made) -> Choice | None:
        """The first choice on the way to a step that was not made yet."""
        choice = self.mapping.choices.get(name)
        if choice is not None:
            if choice.key not in written:
                return choice
            return self._next(choice.cases[written[choice.key]], written)
        for arg in self.mapping.steps[name].args:
            following = self._next(arg, written)
            if following is not None:
                return following
        return None

    def _straight(self, made: Made) -> tuple[tuple[Expr, ...], str]:
        table = self.mapping.steps
        done: dict[str, Expr] = {}

        def resolve(name: str) -> str:
            choice = self.mapping.choices.get(name)
            return name if choice is None else resolve(choice.cases[made[choice.key]])

        def visit(name: str) -> None:
            if name in done:
                return
            step = table[name]
            args = tuple(resolve(a) for a in step.args)
            for arg in args:
                visit(arg)
            done[name] = Expr(**{**step.__dict__, "args": args})

        root = resolve(self.mapping.root)
        visit(root)
        return tuple(done.values()), root

    def _branch(self, choice: Choice, ranges: Ranges, made: Made) -> None:
        at = f"at{self._number()}"
        self.w.line(f"const int64_t {at} = {self.loops.point(choice.index)};")
        for i in range(len(choice.cases)):
            test = f"if ({at} < {choice.bounds[i].text})" if i < len(choice.bounds) else ""
            with self.w.block(f"{'else ' if i else ''}{test}".strip()):
                self.write(dict(ranges), {**made, choice.key: i})

    def _ranges(self, choice: Choice, group: int, ranges: Ranges, made: Made) -> None:
        low, high = ranges[group]
        variable, coefficient = next((v, c) for v, c in choice.index.terms if self.loops.where[v] == group)
        if sum(self.loops.where[v] == group for v, _ in choice.index.terms) > 1 or not coefficient.literal:
            raise Unsupported("a choice by two loops at once")
        point, scale = self.loops.point(choice.index, group), self.loops.inner(variable).text
        order = list(range(len(choice.cases)))
        up = coefficient.number > 0
        bounds = list(choice.bounds) if up else list(reversed(choice.bounds))
        edges = [low]
        for bound in bounds:
            away = f"({bound.text}) - ({point})" if up else f"({point}) - ({bound.text}) + 1"
            cut = f"cut{self._number()}"
            steps = away if abs(coefficient.number) == 1 else f"ceil_div({away}, {abs(coefficient.number)})"
            first = steps if scale == "1" else f"({steps}) * ({scale})"
            self.w.line(f"const int64_t {cut} = within({first}, {edges[-1]}, {high});")
            edges.append(cut)
        edges.append(high)
        for i, case in enumerate(order if up else reversed(order)):
            with self.w.block(f"if ({edges[i]} < {edges[i + 1]})"):
                self.write({**ranges, group: (edges[i], edges[i + 1])}, {**made, choice.key: case})

    def _number(self) -> int:
        self._cuts += 1
        return self._cuts
