"""Where the heads of an attention's operands lie: sizes of the dimensions before the last two, as C++ expressions.

In: the parts of an attention in its region. Out: expressions of task.h's constants, and lines that split the number
of a head into its indices. The same heads have other dimensions in the products, in the scores between them and in
the result, where views stand in between; in all of them they follow each other in one order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ...codegen.fusion.op_chain import Chain
from ...codegen.program import Unsupported
from ...codegen.writer import Writer
from ...records import Graph


@dataclass(frozen=True)
class Parts:
    """What the loops need to know. `names`: value → in0, out0 …; `raw` and `shape`: of the scores as the product
    makes them and as the chain reads them."""

    graph: Graph
    names: Mapping[str, str]
    query: str
    key: str
    value: str
    transposed: bool
    raw: tuple[int, ...]
    shape: tuple[int, ...]
    softmax: bool
    limit: int | None
    scale: str
    grouped: bool
    library: bool
    scores: Chain | None
    epilogue: Chain
    final: tuple[int, ...]  # shape of what the last product makes


def raw_sizes(p: Parts) -> list[str]:
    """Sizes of the dimensions before the last two of queries times keys."""
    rank = len(p.raw)
    sizes = []
    for d in range(rank - 2):
        named = [
            f"{p.names[v]}_shape[{d - rank + r}]" for v in (p.query, p.key)
            if (r := len(p.graph.specs[v].shape)) >= rank - d
        ]  # fmt: skip
        query, key = named[0], named[-1]
        sizes.append(query if len(named) == 1 or p.grouped else f"{query} == 1 ? {key} : {query}")
    return sizes


def final_sizes(p: Parts) -> list[str]:
    operand = p.epilogue.stored[0][0]
    where = {axis: f"{operand.name}_shape[{d}]" for d, axis in enumerate(operand.axes)}
    return [where.get(d, "1") for d in range(len(p.final) - 2)]


def score_sizes(p: Parts) -> list[str]:
    """Sizes of the dimensions before the last two of the scores that the chain reads. Raises Unsupported."""
    if p.shape[:-2] == p.raw[:-2]:
        return raw_sizes(p)
    if p.shape[:-2] == p.final[:-2]:
        return final_sizes(p)
    assert p.scores is not None
    operands = [
        s.operand for s in p.scores.program.steps if s.operand is not None and s.operand.name != "acc"
    ]
    sizes: list[str] = []
    for d, n in enumerate(p.shape[:-2]):
        named = [f"{o.name}_shape[{o.axes.index(d)}]" for o in operands if d in o.axes]
        sizes.append("1" if n == 1 else named[0] if named else "")
    if sizes.count("") > 1:
        raise Unsupported("dimensions of the scores that no operand has")
    known_product = " * ".join(f"({s})" for s in sizes if s) or "1"
    return [s or f"HEADS / ({known_product})" for s in sizes]


def split_head(w: Writer, letter: str, sizes: Sequence[str]) -> None:
    """`h0`, `h1` … of the head."""
    for d in range(len(sizes)):
        below = " * ".join(f"SIZE({s})" for s in sizes[d + 1 :])
        text = f"head / ({below})" if below else "head"
        w.line(f"[[maybe_unused]] const int64_t {letter}{d} = {text}{f' % SIZE({sizes[d]})' if d else ''};")


def head_start(p: Parts, value: str, letter: str, rank: int) -> str:
    """Return the offset of an operand's head; its dimensions before the last two line up with those of the head."""
    name, value_rank = p.names[value], len(p.graph.specs[value].shape)
    terms = []
    for d in range(value_rank - 2):
        index = f"{letter}{rank - value_rank + d}"
        if p.grouped and value != p.query and d == value_rank - 3:
            index = f"({index} * {name}_shape[{d}] / {p.names[p.query]}_shape[{d}])"
        terms.append(f" + {index} * ({name}_shape[{d}] == 1 ? 0 : {name}_stride[{d}])")
    return name + "".join(terms)


def head_count(shape: tuple[int, ...]) -> int:
    return prod(shape[:-2])
