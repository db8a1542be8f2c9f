"""The loops over a mapping's output and how far each operand moves in them.

In: a `Mapping`. Out: `Loops`: the loop variables in the order of the output's memory, neighbours that every operand
is flat over merged into one group, the constants that say so in C++ (with checks for other variants), and addresses.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....codegen.writer import Writer
from ....records import TensorSpec
from .index_symbols import Index, Sym, name_constant, product, sym
from .pull import Choice, Load, Mapping

NEAR = 4  # lanes further apart than this many elements do not share cache lines


@dataclass(frozen=True)
class Access:
    """An operand's elements as the loops touch them, in elements. `steps` by loop variable."""

    name: str
    operand: str
    steps: tuple[Sym, ...]
    base: Sym
    lookups: tuple[tuple[str, Sym], ...]  # table → how far one entry moves


class Loops:
    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        spec = mapping.graph.specs[mapping.output]
        dims = sorted(range(len(spec.shape)), key=lambda d: -spec.stride[d])
        self.order = [v for d in dims for v in mapping.dims[d]]
        self.out = self._access("out0", "out0", spec, mapping.whole)
        self.loads = {n: self._find_access(load) for n, load in mapping.loads.items()}
        self.tables = {n: self._find_access(load) for n, load in mapping.tables.items()}
        self.groups = self._groups()
        self.where = {v: i for i, group in enumerate(self.groups) for v in group}

    @property
    def last(self) -> int:
        return len(self.groups) - 1

    def extent(self, group: int) -> int:
        """At the main variant."""
        return product([self.mapping.extents[v] for v in self.groups[group]]).value

    def step(self, access: Access, group: int) -> int:
        """Return the distance that one step along a group moves, at the main variant."""
        long = [v for v in self.groups[group] if self.mapping.extents[v].value != 1]
        return access.steps[long[-1]].value if long else 0

    def moves(self, access: Access, group: int) -> bool:
        return any(not access.steps[v].zero for v in self.groups[group])

    def inner(self, variable: int) -> Sym:
        """Return the steps of the group that make one step of the variable, which is the group's first."""
        group = self.groups[self.where[variable]]
        return product([self.mapping.extents[v] for v in group[group.index(variable) + 1 :]])

    def offset(self, access: Access, apart: frozenset[int] = frozenset()) -> str:
        """Sum over the groups but those `apart`, as the tail of an expression."""
        terms = [] if access.base.zero else [access.base.text]
        terms += [
            f"g{i} * {access.name}_g{i}"
            for i in range(len(self.groups))
            if i not in apart and self.moves(access, i)
        ]
        return "".join(f" + {t}" for t in terms)

    def point(self, index: Index, without: int | None = None) -> str:
        """Return an index as an expression of g0, g1 …; `without` one group."""
        terms = []
        for variable, coefficient in index.terms:
            group = self.where[variable]
            if group == without:
                continue
            inner = self.inner(variable).text
            own = f"g{group}" if len(self.groups[group]) == 1 else f"g{group} / nonzero({inner})"
            terms.append(own if coefficient.text == "1" else f"({coefficient.text}) * ({own})")
        if not index.const.zero or not terms:
            terms.append(f"({index.const.text})")
        return " + ".join(terms)

    def dense_elsewhere(self) -> dict[str, int]:
        """Return the float inputs whose neighbours along the last loop lie far apart, each with a loop along which it is dense."""
        candidates: dict[str, int] = {}
        for name, access in self.loads.items():
            is_apart = abs(self.step(access, self.last)) > NEAR and self.extent(self.last) >= NEAR
            if self.mapping.steps[name].kind != "f" or access.lookups or not is_apart:
                continue
            dense = [i for i in range(self.last) if self.step(access, i) == 1 and self.extent(i) >= NEAR]
            if dense:
                candidates[name] = dense[0]
        return candidates

    def declare(self, w: Writer) -> None:
        """Extents, groups, steps; assertions that what was merged or assumed holds at this variant."""
        w.use("flat")
        sizes = ", ".join(self.mapping.extents[v].text for v in self.order)
        w.line(f"constexpr int64_t extents[] = {{{sizes}}};  // of the loops over the output")
        first = 0
        spans = []
        for i, group in enumerate(self.groups):
            spans.append((first, first + len(group) - 1))
            text = " * ".join(f"extents[{first + d}]" for d in range(len(group)))
            w.line(f"constexpr int64_t g{i}_size = {text};")
            first += len(group)
        for access in (self.out, *self.loads.values(), *self.tables.values()):
            steps = ", ".join(access.steps[v].text for v in self.order)
            w.line(f"constexpr int64_t {access.name}_steps[] = {{{steps}}};")
            for i, (a, b) in enumerate(spans):
                table = f"extents, {access.name}_steps, {a}, {b}"
                w.line(f"constexpr int64_t {access.name}_g{i} = pace({table});")
                if b > a and self.moves(access, i):
                    w.line(f'static_assert(flat({table}), "requires: {access.operand} flat, {a} to {b}");')
        for text in self.mapping.requires:
            w.line(f'static_assert({text}, "requires: {text}");')

    # ---- internals

    def _find_access(self, load: Load) -> Access:
        return self._access(load.name, load.operand, load.spec, load.index)

    def _access(self, name: str, operand: str, spec: TensorSpec, index: tuple[Index, ...]) -> Access:
        count = len(self.mapping.extents)
        steps, base = [sym(0)] * count, sym(0)
        lookups: dict[str, Sym] = {}
        for d, dim_index in enumerate(index):
            step = name_constant(f"{operand}_stride[{d}]", spec.stride[d])
            for variable, coefficient in dim_index.terms:
                steps[variable] = steps[variable] + coefficient * step
            base = base + dim_index.const * step
            for table, coefficient in dim_index.looked_up:
                lookups[table] = lookups.get(table, sym(0)) + coefficient * step
        return Access(name, operand, tuple(steps), base, tuple(lookups.items()))

    def _groups(self) -> list[list[int]]:
        groups: list[list[int]] = []
        for variable in self.order:
            if groups and self._joins(groups[-1][-1], variable):
                groups[-1].append(variable)
            else:
                groups.append([variable])
        return groups

    def _joins(self, outer: int, inner: int) -> bool:
        """Tell whether two neighbouring loops can be one, at the main variant."""
        chosen = self.mapping.choices.values()
        if any(v == inner for c in chosen for v, _ in c.index.terms):
            return False
        if any(v == outer for c in chosen for v, _ in c.index.terms) and not all(map(_plain, chosen)):
            return False
        size = self.mapping.extents[inner].value
        everything = (self.out, *self.loads.values(), *self.tables.values())
        return all(a.steps[outer].value == a.steps[inner].value * size for a in everything)


def _plain(choice: Choice) -> bool:
    """By one variable, step by step."""
    return len(choice.index.terms) <= 1 and all(
        c.literal and abs(c.number) == 1 for _, c in choice.index.terms
    )
