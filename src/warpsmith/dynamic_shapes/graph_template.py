"""A graph whose sizes are expressions: the same module exported at several sizes gives the rule for all of them.

In: graphs of one module at different sizes. Out: the graph at any other sizes, without an export. Each integer that differs between the
graphs must be a product of powers of the sizes times a constant, or a sum of two such terms, that holds at every point; what is of
another kind is a TaskError, and no graph is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from math import prod
from typing import Any, NamedTuple

from ..errors import TaskError
from ..records import Graph
from .dim_ranges import Sizes

MAX_DEGREE = 3  # of a term
SPARE_POINTS = 1  # by which there are more points than unknowns, so that an expression is tested
Number = int | float | str | bool | None
Make = Callable[[Sizes], Any]


class Term(NamedTuple):
    factor: Fraction
    exponents: tuple[int, ...]

    def evaluate(self, sizes: Sizes) -> Fraction:
        return self.factor * _evaluate_monomial(self.exponents, sizes)


class GraphTemplate:
    """Call `at(sizes)` for the graph at these sizes."""

    def __init__(self, points: Sequence[tuple[Sizes, Graph]]) -> None:
        """Raises TaskError where the graphs differ in what no expression of the sizes explains."""
        self._sizes = tuple(sizes for sizes, _ in points)
        self._make = self._fit([graph.model_dump(mode="json") for _, graph in points], "graph")

    def at(self, sizes: Sizes) -> Graph:
        """Return the graph at these sizes. Raises TaskError where an expression gives no whole number there."""
        graph: Graph = Graph.model_validate(self._make(sizes))
        return graph

    def _fit(self, values: Sequence[Any], path: str) -> Make:
        first = values[0]
        if all(value == first for value in values):
            return lambda sizes: first
        if all(isinstance(value, dict) and value.keys() == first.keys() for value in values):
            if first.keys() == {"shape", "dtype", "stride"}:
                return self._fit_spec(values, path)
            fields = {key: self._fit_field(key, [v[key] for v in values], path) for key in first}
            return lambda sizes: {key: make(sizes) for key, make in fields.items()}
        if all(isinstance(value, list) and len(value) == len(first) for value in values):
            items = [self._fit([v[n] for v in values], f"{path}[{n}]") for n in range(len(first))]
            return lambda sizes: [make(sizes) for make in items]
        return self._fit_number(values, range(len(values)), path)

    def _fit_field(self, key: str, values: Sequence[Any], path: str) -> Make:
        """Count floating-point operations as at the first point where no expression tells them: nothing is computed from them."""
        try:
            return self._fit(values, f"{path}.{key}")
        except TaskError:
            if key != "flops":
                raise
            return lambda sizes: values[0]

    def _fit_spec(self, values: Sequence[Any], path: str) -> Make:
        """The stride of an axis of one element means nothing, so those points say nothing of it."""
        shape = self._fit([v["shape"] for v in values], f"{path}.shape")
        strides = []
        for axis in range(len(values[0]["shape"])):
            telling = [n for n, v in enumerate(values) if v["shape"][axis] != 1] or [0]
            strides.append(
                self._fit_number([v["stride"][axis] for v in values], telling, f"{path}.stride[{axis}]")
            )
        dtype = values[0]["dtype"]
        return lambda sizes: {
            "shape": shape(sizes),
            "dtype": dtype,
            "stride": [make(sizes) for make in strides],
        }

    def _fit_number(self, values: Sequence[Number], telling: Sequence[int], path: str) -> Make:
        numbers = [values[n] for n in telling]
        if all(value == numbers[0] for value in numbers):
            return lambda sizes: numbers[0]
        if any(type(value) is not int for value in numbers):
            raise TaskError(f"{path} differs between sizes by more than numbers can tell")
        terms = find_terms(tuple(int(v or 0) for v in numbers), tuple(self._sizes[n] for n in telling))
        if terms is None:
            raise TaskError(
                f"{path} follows from the sizes by no simple expression: {numbers} at {[self._sizes[n] for n in telling]}"
            )
        return lambda sizes: _evaluate(terms, sizes, path)


@lru_cache(maxsize=4096)
def find_terms(values: tuple[int, ...], points: tuple[Sizes, ...]) -> tuple[Term, ...] | None:
    """Find one or two terms that give the values at the points, the simplest first; None where there are none, or too few points
    to tell.
    """
    count = len(points[0])
    powers = [e for e in product(range(MAX_DEGREE + 1), repeat=count) if sum(e) <= MAX_DEGREE]
    powers.sort(key=lambda e: (sum(e), e))
    columns = {e: [_evaluate_monomial(e, sizes) for sizes in points] for e in powers}
    if len(values) >= 1 + SPARE_POINTS:
        for exponents, column in columns.items():
            factor = Fraction(values[0], column[0])
            if all(factor * c == v for c, v in zip(column, values, strict=True)):
                return (Term(factor, exponents),)
    if len(values) >= 2 + SPARE_POINTS:
        for lower, higher in combinations(powers, 2):
            factors = _solve(columns[lower], columns[higher], values)
            if factors is not None:
                return Term(factors[0], lower), Term(factors[1], higher)
    return None


def _solve(a: Sequence[int], b: Sequence[int], values: Sequence[int]) -> tuple[Fraction, Fraction] | None:
    """Solve values = x a + y b exactly; None where no pair does."""
    second = next((n for n in range(1, len(a)) if a[0] * b[n] != a[n] * b[0]), None)
    if second is None:
        return None
    determinant = a[0] * b[second] - a[second] * b[0]
    x = Fraction(values[0] * b[second] - values[second] * b[0], determinant)
    y = Fraction(a[0] * values[second] - a[second] * values[0], determinant)
    fits = all(x * p + y * q == v for p, q, v in zip(a, b, values, strict=True))
    return (x, y) if fits else None


def _evaluate_monomial(exponents: Sequence[int], sizes: Sizes) -> int:
    return prod(size**exponent for size, exponent in zip(sizes, exponents, strict=True))


def _evaluate(terms: Sequence[Term], sizes: Sizes, path: str) -> int:
    total = sum((term.evaluate(sizes) for term in terms), Fraction(0))
    if total.denominator != 1:
        raise TaskError(f"{path} would be {total} at these sizes")
    return int(total)
