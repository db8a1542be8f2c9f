"""What each known node says about dimensions: which of its operands' dimensions run together.

In: a node and the factors found so far. Out: the factors, tied and split further. Raises Unsupported for a node
that is not known, or whose views have no common refinement.
"""

from __future__ import annotations

from ...records import Graph, Node, TensorSpec
from ..program import Unsupported
from .factors import Dim, Factors
from .op_builder import option
from .ops import pointwise

SHUFFLES = {"pixel_shuffle", "pixel_unshuffle", "channel_shuffle"}
RESHAPES = {"view", "reshape", "_unsafe_view", "unsqueeze", "squeeze"}
PERMUTING = {"permute", "transpose", "t"}
VIEWS = {*RESHAPES, *SHUFFLES, *PERMUTING, "expand", "repeat"}
REDUCING = {
    "sum", "mean", "amax", "amin", "max", "min", "prod", "argmax", "argmin", "any", "all", "logsumexp",
    "var", "std",
    "var_mean", "linalg_vector_norm",
}  # fmt: skip
BATCH_NORMS = {
    "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit",
}  # by the batch's own statistics
BATCH_NORM_INFERENCE = "_native_batch_norm_legit_no_training"
GROUP_NORM = "native_group_norm"
KEEPING = {
    "_softmax", "_log_softmax", "native_layer_norm", GROUP_NORM, *BATCH_NORMS,
}  # reduce inside, but keep the shape  # fmt: skip


PICKING = {"nll_loss_forward", "gather"}  # take one element of each row, at an index


def base_name(node: Node) -> str:
    """ "aten.sum.dim_IntList" → "sum"."""
    return node.base_name


def order_of(graph: Graph, node: Node) -> list[int]:
    """Source dimension of each output dimension of a permuting node."""
    rank = len(graph.specs[node.uses[0]].shape)
    order = list(range(rank))
    name = base_name(node)
    if name == "permute":
        return [d % rank for d in node.args[1]]
    a, b = (node.args[1] % rank, node.args[2] % rank) if name == "transpose" else (0, rank - 1)
    if rank:
        order[a], order[b] = order[b], order[a]
    return order


def list_reduced_dims(node: Node, spec: TensorSpec) -> tuple[int, ...]:
    """Dimensions of the first argument that a reducing node reduces, ascending; of a group norm those that it
    reduces whole."""
    rank, name = len(spec.shape), base_name(node)
    if name == "native_layer_norm":
        return tuple(range(rank - len(node.args[1]), rank))
    if name in BATCH_NORMS:
        return tuple(d for d in range(rank) if d != 1)
    if name == GROUP_NORM:
        return tuple(range(2, rank))
    position = 2 if name == "linalg_vector_norm" else 1
    dims = option(node, position, "dim", None)
    if dims is None or dims == []:
        return tuple(range(rank))
    if isinstance(dims, bool | dict):
        raise Unsupported(f"{node.name}: reduction over {dims!r}")
    listed = dims if isinstance(dims, list | tuple) else [dims]
    return tuple(sorted(d % rank for d in listed)) if rank else ()


def relate(f: Factors, graph: Graph, node: Node) -> None:
    """Ties the dimensions of what a node reads and makes."""
    for value in (*node.uses, *(v.name for v in node.outputs if v is not None)):
        for d, size in enumerate(graph.specs[value].shape):
            f.declare((value, d), size)
    name = base_name(node)
    if name in VIEWS:
        _view(f, graph, node, name)
    elif name in BATCH_NORMS or name == BATCH_NORM_INFERENCE:
        _batch_norm(f, graph, node)
    elif name == GROUP_NORM:
        _group_norm(f, graph, node)
    elif name in KEEPING:
        _keep(f, graph, node, name)
    elif name in REDUCING and not _elementwise_extremum(node, name):
        _reduce(f, graph, node)
    elif name in PICKING:
        _pick(f, graph, node)
    elif pointwise(node.op) is not None:
        for value in node.uses:
            _broadcast(f, graph, value, node.output.name)
    else:
        raise Unsupported(f"{node.op} is not known")


def _same(f: Factors, left: Dim, right: Dim) -> None:
    f.tie(f.of(left), f.of(right))


def _elementwise_extremum(node: Node, name: str) -> bool:
    return name in ("max", "min") and node.op.endswith(".other")


def _broadcast(f: Factors, graph: Graph, value: str, out: str) -> None:
    shape, wide = graph.specs[value].shape, graph.specs[out].shape
    for d, size in enumerate(shape):
        if size == wide[d + len(wide) - len(shape)]:
            _same(f, (value, d), (out, d + len(wide) - len(shape)))


def _batch_norm(f: Factors, graph: Graph, node: Node) -> None:
    source, out = node.uses[0], node.output
    for d in range(len(out.spec.shape)):
        _same(f, (source, d), (out.name, d))
    for vector in (*node.uses[1:], *(v.name for v in node.outputs[1:] if v is not None)):
        if len(graph.specs[vector].shape) == 1:
            _same(f, (source, 1), (vector, 0))


def _group_norm(f: Factors, graph: Graph, node: Node) -> None:
    """Channels are groups times channels of a group."""
    source, out = node.uses[0], node.output
    for d in range(len(out.spec.shape)):
        _same(f, (source, d), (out.name, d))
    for vector in node.uses[1:]:
        _same(f, (source, 1), (vector, 0))
    groups, _ = group_factors(f, graph, node)
    f.fix(groups)
    for statistic in (
        v.name for v in node.outputs[1:] if v is not None
    ):  # mean and 1 / deviation, of each group
        _same(f, (source, 0), (statistic, 0))
        f.tie(f.of((statistic, 1)), groups)


def group_factors(f: Factors, graph: Graph, node: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The factors of a group norm's channels: over the groups, and within one."""
    source, groups = node.uses[0], int(node.args[6])
    channels = graph.specs[source].shape[1]
    if groups < 1 or channels % groups:
        raise Unsupported(f"{node.name}: {channels} channels in {groups} groups")
    factors = f.of((source, 1))
    sizes = [f.size(x) for x in factors]
    if len(sizes) > 1 and sizes[0] == groups:  # cut before
        return factors[:1], factors[1:]
    return f.cut(factors, channels // groups)


def _keep(f: Factors, graph: Graph, node: Node, name: str) -> None:
    source, out = node.uses[0], node.output
    rank = len(graph.specs[source].shape)
    for d in range(rank):
        _same(f, (source, d), (out.name, d))
    if name != "native_layer_norm":
        return
    for extra in node.uses[1:]:
        width = len(graph.specs[extra].shape)
        for d in range(width):
            _same(f, (source, rank - width + d), (extra, d))
    for statistic in (v.name for v in node.outputs[1:] if v is not None):
        for d in range(rank - len(node.args[1])):
            _same(f, (source, d), (statistic, d))


def _reduce(f: Factors, graph: Graph, node: Node) -> None:
    source = node.uses[0]
    spec = graph.specs[source]
    reduced = set(list_reduced_dims(node, spec))
    remaining = [d for d in range(len(spec.shape)) if d not in reduced]
    for out in (v for v in node.outputs if v is not None):
        keepdim = len(out.spec.shape) == len(spec.shape) and bool(reduced)
        for i, d in enumerate(remaining):
            _same(f, (source, d), (out.name, d if keepdim else i))


def find_picked_dim(node: Node, spec: TensorSpec) -> int:
    """The dimension of the first argument along which a picking node takes one element."""
    rank = len(spec.shape)
    if rank == 0:
        raise Unsupported(f"{node.name} picks from a scalar")
    return rank - 1 if base_name(node) == "nll_loss_forward" else int(node.args[1]) % rank


def _pick(f: Factors, graph: Graph, node: Node) -> None:
    """Index and result have the source's other dimensions; class weights its picked one."""
    source, out = node.uses[0], node.output
    shape = graph.specs[source].shape
    picked = find_picked_dim(node, graph.specs[source])
    index = node.args[1]["v"] if base_name(node) == "nll_loss_forward" else node.args[2]["v"]
    for value in (index, out.name):
        sizes = graph.specs[value].shape
        if value == out.name and not sizes:
            continue
        for d in (d for d in range(len(shape)) if d != picked):
            where = d if len(sizes) == len(shape) else d - (d > picked)
            if sizes[where] != shape[d]:
                raise Unsupported(f"{node.name} picks from a part of its argument")
            _same(f, (source, d), (value, where))
        if len(sizes) == len(shape) and sizes[picked] != 1:
            raise Unsupported(f"{node.name} picks several elements of a row")
    if base_name(node) == "nll_loss_forward" and node.args[2] is not None:
        _same(f, (source, picked), (node.args[2]["v"], 0))


def _view(f: Factors, graph: Graph, node: Node, name: str) -> None:
    source, out = node.uses[0], node.output
    if graph.specs[source].dtype != out.spec.dtype:
        raise Unsupported(f"{node.name} takes bits for another type")
    rank = len(graph.specs[source].shape)
    before = [(source, d) for d in range(rank)]
    after = [(out.name, d) for d in range(len(out.spec.shape))]
    if name in PERMUTING:
        for i, d in enumerate(order_of(graph, node)):
            _same(f, before[d], after[i])
    elif name == "expand":
        _broadcast(f, graph, source, out.name)
    elif name == "repeat":
        _repeat(f, graph, node)
    elif name in SHUFFLES:
        _shuffle(f, graph, node, name)
    else:
        f.tie(f.of(*before), f.of(*after))
        _fix_given(f, node, after)


def _fix_given(f: Factors, node: Node, after: list[Dim]) -> None:
    """In view(n, 4, -1) the 4 is a constant of the module: groups, heads. Without -1 no size says which is given."""
    sizes = node.args[1] if len(node.args) > 1 else None
    if not isinstance(sizes, list | tuple) or -1 not in sizes or len(sizes) != len(after):
        return
    for dim, size in zip(after, sizes, strict=True):
        if size != -1 and len(f.of(dim)) == 1:
            f.fix(f.of(dim))


def _repeat(f: Factors, graph: Graph, node: Node) -> None:
    source, out = node.uses[0], node.output
    shape = graph.specs[source].shape
    offset = len(out.spec.shape) - len(shape)
    for d, size in enumerate(shape):
        if out.spec.shape[d + offset] == size:
            _same(f, (source, d), (out.name, d + offset))
        elif size != 1:
            f.tie_tail(f.of((out.name, d + offset)), f.of((source, d)))


def _shuffle(f: Factors, graph: Graph, node: Node, name: str) -> None:
    """Channels split by a constant: (g, c) ↔ (c, g), or (c, r, r), h, w ↔ c, (h, r), (w, r)."""
    source, out, by = node.uses[0], node.output.name, int(node.args[1])
    rank = len(graph.specs[source].shape)
    if name == "channel_shuffle":
        channels = graph.specs[source].shape[1]
        outer, inner = f.cut(f.of((source, 1)), channels // by)
        f.fix(outer)
        f.tie(f.of((out, 1)), (*inner, *outer))
        for d in (d for d in range(rank) if d != 1):
            _same(f, (source, d), (out, d))
        return
    deep, wide = (source, out) if name == "pixel_shuffle" else (out, source)
    channel, high, low = rank - 3, rank - 2, rank - 1
    outer, squares = f.cut(f.of((deep, channel)), by * by)
    down, across = f.cut(squares, by)
    f.fix((*down, *across))
    for d in range(channel):
        _same(f, (source, d), (out, d))
    f.tie(f.of((wide, channel)), outer)
    f.tie(f.of((wide, high)), (*f.of((deep, high)), *down))
    f.tie(f.of((wide, low)), (*f.of((deep, low)), *across))
