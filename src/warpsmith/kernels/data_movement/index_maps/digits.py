"""An index in a mixed radix: what a reshape asks of loops that run over the output's dimensions.

In: an index that is affine in loop variables, sizes, and the loops' extents. Out: an index for each digit, and what
must hold at every variant; or `Split`, where a loop has to become two first.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....codegen.program import Unsupported
from .index_symbols import Index, Sym, product


class Split(Exception):
    """A loop variable has to become two: the inner one runs over `inner` values."""

    def __init__(self, variable: int, inner: Sym) -> None:
        super().__init__(variable, inner)
        self.variable, self.inner = variable, inner


def digits(index: Index, sizes: Sequence[Sym], extents: Sequence[Sym]) -> tuple[list[Index], list[str]]:
    """The digits in the radix `sizes`, outermost first, and requirements. Raises Split or Unsupported."""
    if len(sizes) == 1:
        return [index], []
    if index.looked_up or not index.const.zero:
        raise Unsupported("a reshape of what is not a whole dimension")
    weights = [product(sizes[i + 1 :]) for i in range(len(sizes))]
    indices = [Index() for _ in sizes]
    requires: list[str] = []
    for variable, coefficient in index.terms:
        position = _place(variable, coefficient, sizes, weights, extents)
        digit = coefficient // weights[position]
        if not digit.literal:
            requires.append(f"{coefficient.text} % ({weights[position].text}) == 0")
        indices[position] = indices[position].plus(Index(((variable, digit),)))
    for size, own in zip(sizes, indices, strict=True):
        if size.value == 1 and not own.terms and size.text != "1":
            requires.append(f"{size.text} == 1")
        if sum(c.value * (extents[v].value - 1) for v, c in own.terms) >= max(size.value, 1):
            raise Unsupported("a reshape whose digits overlap")
    return indices, requires


def _place(
    variable: int, coefficient: Sym, sizes: Sequence[Sym], weights: Sequence[Sym], extents: Sequence[Sym]
) -> int:
    """The digit that a loop counts."""
    extent = extents[variable].value
    reach = coefficient.value * (extent - 1)
    for i, weight in enumerate(weights):
        fits = weight.value and coefficient.value % weight.value == 0
        if fits and reach < sizes[i].value * weight.value:
            return i
    for weight in reversed(weights):
        if weight.value > coefficient.value > 0 and weight.value % coefficient.value == 0:
            inner = weight // coefficient
            if inner.value < extent and extent % inner.value == 0:
                raise Split(variable, inner)
    raise Unsupported("a reshape that cuts across")
