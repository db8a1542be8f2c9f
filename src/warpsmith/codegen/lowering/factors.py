"""Dimensions as products of factors: what reshapes split and merge.

In: dimensions (a value's name and a number) with their sizes, and which sequences of them are the same run of
elements. Out: each dimension as a sequence of factors, outer to inner; dimensions that were tied share their
factors. A reshape (N, C, H, W) → (N, G, C/G·H·W) splits C into two factors and the last dimension into three.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from ..program import Unsupported

Dim = tuple[str, int]


class Factors:
    """Union-find over factors, each of which may also have been split in two."""

    def __init__(self) -> None:
        self._dims: dict[Dim, int] = {}
        self._sizes: list[int] = []
        self._same: dict[int, int] = {}
        self._parts: dict[int, tuple[int, int]] = {}
        self._literals: list[int] = []

    def declare(self, dim: Dim, size: int) -> None:
        """A dimension; again is harmless."""
        if dim not in self._dims:
            self._dims[dim] = self._new(size)

    def of(self, *dims: Dim) -> tuple[int, ...]:
        """The factors of neighbouring dimensions, outer to inner."""
        return tuple(f for d in dims for f in self._leaves(self._dims[d]))

    def size(self, factor: int) -> int:
        return self._sizes[factor]

    def fix(self, factors: Iterable[int]) -> None:
        """These are constants of the operation (a number of groups), not sizes of the data."""
        self._literals += factors

    @property
    def literals(self) -> frozenset[int]:
        return frozenset(f for literal in self._literals for f in self._leaves(literal))

    def tie(self, left: Sequence[int], right: Sequence[int]) -> None:
        """Two sequences that run over the same elements. Raises Unsupported where no common refinement is."""
        if len(left) == len(right) and all(
            self._sizes[a] == self._sizes[b] for a, b in zip(left, right, strict=True)
        ):
            for x, y in zip(left, right, strict=True):
                self._walk([x], [y])
            return
        for single, several in ((right, left), (left, right)):
            if (
                len(single) == 1
                and len(several) > 1
                and single[0] not in several  # beside others of size 1: nothing becomes a part of itself
                and self._sizes[single[0]] == prod(self._sizes[f] for f in several)
            ):
                self._become(single[0], several)
                return
        a, b = self._walk([f for f in left if self._sizes[f] != 1], [f for f in right if self._sizes[f] != 1])
        if a or b:
            raise Unsupported("a view of another number of elements")

    def tie_tail(self, whole: Sequence[int], tail: Sequence[int]) -> None:
        """The innermost factors of `whole` are `tail`: what repeating along a dimension makes."""
        _, remaining = self._walk(
            [f for f in whole if self._sizes[f] != 1], [f for f in tail if self._sizes[f] != 1]
        )
        if remaining:
            raise Unsupported("a repetition of something larger")

    def cut(self, factors: Sequence[int], inner: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The factors in two parts, of which the second has `inner` elements."""
        if len(factors) == 1:
            outer, remaining = self._split(factors[0], inner)
            return (outer,), (remaining,)
        for at in range(len(factors), -1, -1):
            have = prod(self._sizes[f] for f in factors[at:])
            if have == inner:
                return tuple(factors[:at]), tuple(factors[at:])
            if have > inner:
                below = prod(self._sizes[f] for f in factors[at + 1 :])
                outer, remaining = self._split(factors[at], inner // below if below else 0)
                return (*factors[:at], outer), (remaining, *factors[at + 1 :])
        raise Unsupported("a part larger than the whole")

    # ---- internals

    def _new(self, size: int) -> int:
        self._sizes.append(size)
        return len(self._sizes) - 1

    def _leaves(self, factor: int) -> tuple[int, ...]:
        while factor in self._same:
            factor = self._same[factor]
        if factor not in self._parts:
            return (factor,)
        outer, inner = self._parts[factor]
        return (*self._leaves(outer), *self._leaves(inner))

    def _split(self, factor: int, inner: int) -> tuple[int, int]:
        size = self._sizes[factor]
        if inner == 0 or size % inner:
            raise Unsupported(f"a view that splits {size} into parts of {inner}")
        self._parts[factor] = self._new(size // inner), self._new(inner)
        return self._parts[factor]

    def _become(self, factor: int, parts: Sequence[int]) -> None:
        """Splits a factor into given ones, also those of size 1."""
        for i, part in enumerate(parts[:-1]):
            remaining = (
                parts[-1] if i == len(parts) - 2 else self._new(prod(self._sizes[f] for f in parts[i + 1 :]))
            )
            self._parts[factor] = part, remaining
            factor = remaining

    def _walk(self, a: list[int], b: list[int]) -> tuple[list[int], list[int]]:
        """Unites from the innermost factors on, splitting the larger one. Returns what is left of either."""
        while a and b:
            x, y = self._pop_innermost(a), self._pop_innermost(b)
            m, n = self._sizes[x], self._sizes[y]
            if x == y:
                continue
            if m == n:
                self._same[y] = x
            elif m > n:
                outer, inner = self._split(x, n)
                self._same[y] = inner
                a.append(outer)
            else:
                outer, inner = self._split(y, m)
                self._same[x] = inner
                b.append(outer)
        return a, b

    def _pop_innermost(self, factors: list[int]) -> int:
        """Takes the last factor off; it may have been split since it was listed."""
        *leading, last = self._leaves(factors.pop())
        factors += leading
        return last
