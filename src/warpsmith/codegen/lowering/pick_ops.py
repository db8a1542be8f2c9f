"""Ops that take one element of each row, at an index: the negative log-likelihood, and gather of one element.

Only that element is computed and read once more, by the row's own thread, so picking costs no pass over the data.
`PICK_OPS` maps an op to a function (lowering, node) → steps, one for each output of the node. An index outside the
row, for which torch raises, yields NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ...records import Node
from .op_builder import Builder, whole_number

NONE, MEAN, SUM = 0, 1, 2  # torch's numbers for reductions of a loss


class PickBuilder(Builder, Protocol):
    def pick(self, source: str, index: str) -> str: ...
    def combine(self, kind: str, source: str) -> str: ...


LowerPick = Callable[[Any, Node], tuple[str, ...]]


def _gather(b: PickBuilder, n: Node) -> tuple[str, ...]:
    return (b.pick(b.arg(n.args[0]), b.arg(n.args[2], "l")),)


def _nll(b: PickBuilder, n: Node) -> tuple[str, ...]:
    """-x[target] * weight[target], 0 where the target is `ignore_index`; the mean is over the weights."""
    target, ignored = b.arg(n.args[1], "l"), b.integer(whole_number(n.args[4]))
    valid = b.emit("ws::to_mask({0} != {1})", target, ignored, kind="m")
    index = b.emit("ws::select({0}, {1}, {2})", valid, target, b.integer(0), kind="l")
    zero, loss = b.constant(0.0), b.emit("-{0}", b.pick(b.arg(n.args[0]), index))
    weight = b.constant(1.0)
    if n.args[2] is not None:
        weight = b.pick(b.arg(n.args[2]), index)
        loss = b.emit("{0} * {1}", loss, weight)
    loss = b.emit("ws::select({0}, {1}, {2})", valid, loss, zero)
    weight = b.emit("ws::select({0}, {1}, {2})", valid, weight, zero)
    if n.args[3] == NONE:
        return (loss,)
    total, weights = b.combine("sum", loss), b.combine("sum", weight)
    return (b.emit("{0} / {1}", total, weights) if n.args[3] == MEAN else total), weights


PICK_OPS: dict[str, LowerPick] = {"gather": _gather, "nll_loss_forward": _nll}
