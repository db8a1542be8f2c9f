"""What happens to attention's scores and to its result, as chains of expressions over a run of one row.

In: a graph, the names of a region's operands, and nodes between the products. Out: chains (`op_chain`) from the
buffer `acc` back to it, or to an output whose dimensions stand in another order. Masks that the graph spells
out are expressions of row and column instead of loads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...records import Graph
from ...tasks.regions import make_region
from ..lowering.lower import lower
from ..lowering.op_builder import FLOATS, literal
from ..program import Expr, Kind, Operand, Program, Unsupported
from .op_chain import Chain


def build_chain_between(
    graph: Graph,
    names: Mapping[str, str],
    nodes: Sequence[str],
    start: str,
    end: str,
    computed: Mapping[str, Expr],
) -> Chain | None:
    """The nodes between the scores and the softmax as a chain that changes `acc`. `computed`: values that are
    written as expressions instead of being read. Raises Unsupported."""
    if not nodes:
        return None
    rank = len(graph.specs[end].shape)
    program = lower(graph, make_region(graph, nodes))
    if program.reductions or [o.value for o, _ in program.outputs] != [end]:
        raise Unsupported("scores that are used elsewhere")
    shift = _count_leading_ones(program, start)
    steps: list[Expr] = []
    for step in program.steps:
        if step.operand is None:
            steps.append(step)
            continue
        operand = _shift_axes(step.operand, shift)
        if operand.dims and not operand.plain:
            raise Unsupported("a mask whose dimensions are split")
        if operand.value == start:
            if operand.axes[shift:] != tuple(range(shift, rank)):
                raise Unsupported("scores in another order")
            steps.append(replace(step, operand=replace(_dense(operand), axes=tuple(range(rank)))))
        elif operand.value in computed:
            text = computed[operand.value]
            args = _after(program, start) if "at[" in text.text else ()
            steps.append(replace(text, name=step.name, args=args))
        elif operand.value in names:
            steps.append(replace(step, operand=replace(operand, name=names[operand.value])))
        else:
            raise Unsupported(f"{operand.value} is not an input")
    out, last = program.outputs[0]
    dense = replace(_dense(out), axes=tuple(range(rank)))
    return Chain(replace(program, steps=_put_loads_first(steps)), ((dense, last),))


def _count_leading_ones(program: Program, start: str) -> int:
    """Leading dimensions of size 1 that the scores have and the space of the program lacks: nodes of a bias had one dimension less."""
    axes = next(
        (s.operand.axes for s in program.steps if s.operand is not None and s.operand.value == start), ()
    )
    return (
        next((d for d, axis in enumerate(axes) if axis is not None), 0)
        if axes and axes[-1] != len(axes) - 1
        else 0
    )


def _shift_axes(operand: Operand, shift: int) -> Operand:
    return (
        replace(operand, axes=tuple(None if a is None else a + shift for a in operand.axes))
        if shift
        else operand
    )


def _after(program: Program, start: str) -> tuple[str, ...]:
    """A computed step has the scores as an argument, so that it is not taken for a constant."""
    return tuple(s.name for s in program.steps if s.operand is not None and s.operand.value == start)


def _put_loads_first(steps: list[Expr]) -> tuple[Expr, ...]:
    """Loads first: what is computed in place of a load refers to the scores."""
    loads = [s for s in steps if s.operand is not None]
    return (*loads, *(s for s in steps if s.operand is None))


def mask_chain(
    graph: Graph, names: Mapping[str, str], mask: str, shape: tuple[int, ...], scale: str
) -> Chain:
    """The library's mask: added to the scaled scores, or where it is bool, False puts -inf."""
    spec = graph.specs[mask]
    if spec.dtype not in (*FLOATS, "bool"):
        raise Unsupported(f"a mask of {spec.dtype}")
    extra = len(shape) - len(spec.shape)
    axes = tuple(d + extra if n == shape[d + extra] else None for d, n in enumerate(spec.shape))
    kind: Kind = "m" if spec.dtype == "bool" else "f"
    acc = Operand("acc", "", "float32", tuple(range(len(shape))), shape, shape)
    mask_operand = Operand(names[mask], mask, spec.dtype, axes, spec.shape, spec.stride)
    text = "ws::select({1}, {0}, {0} - ws::infinity)" if kind == "m" else "{0} + {1}"
    scaled = Expr("scaled", f"{{0}} * ({scale})", ("score",), "f", True, 0)
    steps = (
        Expr("score", "load", (), "f", True, 0, operand=acc),
        Expr("mask", "load", (), kind, True, 0, operand=mask_operand),
        scaled,
        Expr("masked", text, ("scaled", "mask"), "f", True, 0),
    )
    stored = ((acc, "masked"),)
    return Chain(Program((acc, mask_operand), stored, steps, ()), stored)


def build_permuting_chain(
    names: Mapping[str, str], graph: Graph, value: str, out: str, order: Sequence[int]
) -> Chain:
    """Stores what the last product makes with its dimensions in another order: `order` is that of a permute."""
    spec = graph.specs[value]
    acc = Operand("acc", value, "float32", tuple(range(len(spec.shape))), spec.shape, spec.stride)
    to = graph.specs[out]
    stored = Operand(names[out], out, to.dtype, tuple(order), to.shape, to.stride)
    load = Expr("sum", "load", (), "f", True, 0, operand=acc)
    return Chain(Program((acc,), ((stored, "sum"),), (load,), ()), ((stored, "sum"),))


def band_step(limit: int | None, inside: float, outside: float, kind: str, rank: int) -> Expr:
    """A mask's value from its row and column."""
    if limit is None:
        if kind == "m":
            raise Unsupported("a mask of one value")
        return Expr("", literal(inside), (), "f", True, 0)
    column, row = f"(int32_t)(at[{rank - 1}] + j)", f"(int32_t)(at[{rank - 2}] + ({limit}))"
    test = f"(ws::iota() + {column} <= {row})"
    if kind == "m":
        return Expr("", test if inside else f"({test} == 0)", (), "m", True, 0)
    return Expr(
        "",
        f"ws::select({test}, ws::splat({literal(inside)}), ws::splat({literal(outside)}))",
        (),
        "f",
        True,
        0,
    )


def lane_band_step(limit: int | None, inside: float, outside: float, kind: Kind, rank: int) -> Expr:
    """The same for one lane `v` of a pack on a GPU."""
    if limit is None:
        if kind == "m":
            raise Unsupported("a mask of one value")
        return Expr("", literal(inside), (), "f", True, 0)
    test = f"(int32_t)(at[{rank - 1}] + v - at[{rank - 2}]) <= {limit}"
    if kind == "m":
        return Expr("", f"({test})" if inside else f"!({test})", (), "m", True, 0)
    return Expr("", f"({test} ? {literal(inside)} : {literal(outside)})", (), "f", True, 0)


def lane_position_step(rows: int, columns: int, constant: int, kind: Kind, rank: int) -> Expr:
    """A sum of multiples of row and column that fits 32 bits, for one lane `v` of a pack on a GPU. `kind`: "l" or "f"."""
    row, column = f"(int32_t)at[{rank - 2}]", f"(int32_t)(at[{rank - 1}] + v)"
    text = f"({'int64_t' if kind == 'l' else 'float'})({rows} * {row} + {columns} * {column} + {constant})"
    return Expr("", text, (), kind, True, 0)


def _dense(operand: Operand) -> Operand:
    return replace(operand, name="acc", dtype="float32")
