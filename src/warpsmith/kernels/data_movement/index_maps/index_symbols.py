"""Sizes and indices as text for C++ with their numbers at the main variant.

A `Sym` is an integer expression over the constants of `task.h`, so that one source serves every variant; its value
at the main variant is what decisions are made by. An `Index` is affine in the variables of the loops over the
output, plus integers read from tables (what a gather looks up).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....codegen.program import Unsupported


@dataclass(frozen=True)
class Sym:
    """`number` times the product of `factors` (C++ terms without operators outside brackets)."""

    number: int
    factors: tuple[str, ...]
    value: int

    @property
    def text(self) -> str:
        if not self.factors:
            return str(self.number)
        product = " * ".join(self.factors)
        return product if self.number == 1 else f"{self.number} * {product}"

    @property
    def literal(self) -> bool:
        return not self.factors

    @property
    def zero(self) -> bool:
        return self.literal and self.number == 0

    def __add__(self, other: Sym) -> Sym:
        if self.factors == other.factors:
            number = self.number + other.number
            return sym(0) if number == 0 else Sym(number, self.factors, self.value + other.value)
        if self.zero or other.zero:
            return other if self.zero else self
        return Sym(1, (f"({self.text} + {_put_in_brackets(other)})",), self.value + other.value)

    def __sub__(self, other: Sym) -> Sym:
        if self.factors == other.factors or self.zero or other.zero:
            return self + other * sym(-1)
        return Sym(1, (f"({self.text} - {_put_in_brackets(other)})",), self.value - other.value)

    def __mul__(self, other: Sym) -> Sym:
        if self.zero or other.zero:
            return sym(0)
        factors = tuple(sorted((*self.factors, *other.factors)))
        return Sym(self.number * other.number, factors, self.value * other.value)

    def __floordiv__(self, other: Sym) -> Sym:
        """Exact at the main variant. Raises Unsupported where it is not."""
        if other.value == 0 or self.value % other.value:
            raise Unsupported(f"{self.text} is not a multiple of {other.text}")
        mine, divisors = Counter(self.factors), Counter(other.factors)
        if other.number and self.number % other.number == 0 and not divisors - mine:
            factors = tuple(sorted((mine - divisors).elements()))
            return Sym(self.number // other.number, factors, self.value // other.value)
        return Sym(1, (f"(({self.text}) / ({other.text}))",), self.value // other.value)


def sym(number: int) -> Sym:
    return Sym(number, (), number)


def name_constant(text: str, value: int) -> Sym:
    """A constant of `task.h`, or any expression in brackets."""
    return Sym(1, (text,), value)


def product(sizes: Sequence[Sym]) -> Sym:
    result = sym(1)
    for size in sizes:
        result = result * size
    return result


def _put_in_brackets(value: Sym) -> str:
    return f"({value.text})" if value.number < 0 or (value.factors and value.number != 1) else value.text


NOTHING = Sym(0, (), 0)


@dataclass(frozen=True)
class Index:
    """const + sum of coefficient * variable + sum of coefficient * table entry."""

    terms: tuple[tuple[int, Sym], ...] = ()  # variable → coefficient, by variable; none is zero
    const: Sym = NOTHING
    looked_up: tuple[tuple[str, Sym], ...] = ()  # table → coefficient

    def plus(self, other: Index) -> Index:
        terms = dict(self.terms)
        for variable, coefficient in other.terms:
            terms[variable] = terms[variable] + coefficient if variable in terms else coefficient
        return Index(_drop_zeros(terms), self.const + other.const, self.looked_up + other.looked_up)

    def shift(self, by: Sym) -> Index:
        return self.plus(Index(const=by))

    def times(self, factor: Sym) -> Index:
        return Index(
            _drop_zeros({v: c * factor for v, c in self.terms}), self.const * factor,
            tuple((t, c * factor) for t, c in self.looked_up),
        )  # fmt: skip


At = tuple[Index, ...]  # one for each dimension


def _drop_zeros(terms: Mapping[int, Sym]) -> tuple[tuple[int, Sym], ...]:
    return tuple((v, c) for v, c in sorted(terms.items()) if not c.zero)


def fix_index(value: Sym) -> Index:
    return Index(const=value)


def replace_dim(index: Sequence[Index], dim: int, own: Index) -> tuple[Index, ...]:
    """The index with another one in a dimension."""
    return (*index[:dim], own, *index[dim + 1 :])


def align_index(shape: Sequence[int], out: Sequence[int], index: Sequence[Index]) -> tuple[Index, ...]:
    """The index into a value of `shape` that is broadcast to `out`."""
    offset = len(out) - len(shape)
    return tuple(
        index[d + offset] if n == out[d + offset] else fix_index(sym(0)) for d, n in enumerate(shape)
    )
