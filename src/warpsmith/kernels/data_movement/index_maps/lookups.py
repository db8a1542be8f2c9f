"""Elements found by a table of indices: gathers, embeddings, indexing by tensors.

In: a mapping, a node and the index of an element of what it makes. Out: the step that holds that element, at an
index that refers to entries of tables.
"""

from __future__ import annotations

from ....codegen.program import Unsupported
from ....records import Node
from .index_symbols import At, Index, align_index, replace_dim, sym
from .pull import Mapping, Moves


def _index_select(m: Mapping, node: Node, value: str, index: At) -> str:
    source, table = node.args[0]["v"], node.args[2]["v"]
    dim = node.args[1] % len(index)
    at = [index[dim]] if m.graph.specs[table].shape else []
    return m.pull(source, replace_dim(index, dim, _entry(m.table(table, at, None))))


def _gather(m: Mapping, node: Node, value: str, index: At) -> str:
    source, table = node.args[0]["v"], node.args[2]["v"]
    dim = node.args[1] % len(index)
    return m.pull(source, replace_dim(index, dim, _entry(m.table(table, index, None))))


def _embedding(m: Mapping, node: Node, value: str, index: At) -> str:
    weight, table = node.args[0]["v"], node.args[1]["v"]
    return m.pull(weight, (_entry(m.table(table, index[:-1], None)), index[-1]))


def _index(m: Mapping, node: Node, value: str, index: At) -> str:
    """x[:, i, j]: neighbouring integer tensors, broadcast together; negative entries count from the end."""
    source = node.args[0]["v"]
    tables = node.args[1]
    positions = [d for d, a in enumerate(tables) if a is not None]
    names = [tables[d]["v"] for d in positions]
    if any(m.graph.specs[n].dtype == "bool" for n in names):
        raise Unsupported("an index by a mask")
    together = positions == list(range(positions[0], positions[0] + len(positions)))
    rank = max(len(m.graph.specs[n].shape) for n in names)
    first = positions[0] if together else 0
    indexed, remaining = index[first : first + rank], [*index[:first], *index[first + rank :]]
    out = m.graph.specs[value].shape[first : first + rank]
    sizes = m.size(source)
    inner: list[Index] = []
    for d in range(len(sizes)):
        if d in positions:
            name = tables[d]["v"]
            inner.append(
                _entry(m.table(name, align_index(m.graph.specs[name].shape, out, indexed), sizes[d]))
            )
        else:
            inner.append(remaining.pop(0))
    return m.pull(source, inner)


def _entry(table: str) -> Index:
    return Index(looked_up=((table, sym(1)),))


LOOKUPS: Moves = {"index_select": _index_select, "gather": _gather, "embedding": _embedding, "index": _index}
