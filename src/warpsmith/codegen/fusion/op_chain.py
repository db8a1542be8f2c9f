"""Pointwise nodes fused into a kernel that has loops of its own: before it (a prologue) or after it (an epilogue).

In: a graph, a region, a chain of its nodes, and the value where chain and kernel meet. Out: a C++ lambda over a
run of neighbouring elements, `length` of them from the index `at` on, along the last dimension of that value:

    epilogue(const float* acc, const int64_t* at, int64_t length)   what the kernel made → stored to the outputs
    prologue(float* to, const int64_t* at, int64_t length)          what the kernel reads, computed from inputs
    scores(float* acc, const int64_t* at, int64_t length)           what the kernel made, changed in place

`at` holds one index for each dimension of the value. Values are float32 in between; the kernel's own stores and
loads need not know dtypes, strides or broadcasting. An epilogue may stream its stores past the caches (NT): a
thread ends its work with `if (NT) ws::fence();`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from ...records import Graph, Region
from ...tasks.regions import make_region
from ..addresses import Addresses
from ..expressions import Express
from ..lowering.lower import lower
from ..lowering.op_builder import FLOATS
from ..lowering.result_types import find_stepped
from ..program import Expr, Kind, Operand, Program, Unsupported, operand_names
from ..writer import INLINE, Writer
from .packed_values import find_packed_value

BUFFERS = ("acc", "acc2", "to")  # the kernel's own operands
_BY_POSITION = re.compile(r"\bj\b|iota")  # an expression that differs from lane to lane by itself


@dataclass(frozen=True)
class Chain:
    """A chain as expressions. `stored`: outputs of the region, or the kernel's buffer, with the step stored there."""

    program: Program
    stored: tuple[tuple[Operand, str], ...]


def epilogue(graph: Graph, region: Region, value: str, nodes: Collection[str], second: str = "") -> Chain:
    """Build the chain of what follows `value` in the region. `second`: another value of its shape that the kernel made. Raises Unsupported."""
    names = operand_names(region)
    acc = _dense(graph, value, "acc")
    if graph.specs[value].dtype not in FLOATS:
        raise Unsupported(f"{value} is {graph.specs[value].dtype}")
    shared = (acc, _dense(graph, second, "acc2")) if second else (acc,)
    if nodes:
        program = _rename_operands(lower_chain(graph, nodes), names, shared, graph)
        stored = program.outputs
    else:
        program = Program((acc,), (), (Expr("acc_v", "load", (), "f", True, 0, operand=acc),), ())
        stored = ()
    if value in region.outputs:
        load = _load_of(program, "acc")
        out = replace(_dense(graph, value, names[value]), dtype=graph.specs[value].dtype)
        stored = (*stored, (out, load))
    _check_spans(graph, value, stored)
    return Chain(program, stored)


def prologue(graph: Graph, region: Region, value: str, nodes: Collection[str]) -> Chain:
    """Build the chain that computes `value`, which the kernel reads; without nodes, `value` as the input that it is. Raises
    Unsupported."""
    names = operand_names(region)
    to = _dense(graph, value, "to")
    if graph.specs[value].dtype not in (*FLOATS, "bool"):
        raise Unsupported(f"{value} is {graph.specs[value].dtype}")
    if nodes:
        program = _rename_operands(lower_chain(graph, nodes), names, (to,), graph)
        stored = tuple((o, _as_float(program, n)) for o, n in program.outputs)
        program = replace(program, steps=(*program.steps, *_casts(program)))
        if [o.name for o, _ in stored] != ["to"]:
            raise Unsupported("a prologue whose values are used elsewhere")
    else:
        source = replace(to, name=_name_operand(names, value), dtype=graph.specs[value].dtype)
        kind: Kind = "m" if source.dtype == "bool" else "f"
        load = Expr("from", "load", (), kind, True, 0, operand=source)
        program = Program((source,), ((to, "from"),), (load,), ())
        stored = ((to, _as_float(program, "from")),)
        program = replace(program, steps=(load, *_casts(program)))
    _check_spans(graph, value, stored)
    return Chain(program, stored)


def write_chain(w: Writer, chain: Chain, name: str, axis: int = -1) -> None:
    """The lambda, called `name`. It refers to the unit's parameters, to VEC, and an epilogue to NT. Runs lie along
    the dimension `axis`.
    """
    program, buffered = chain.program, {o.name for o, _ in chain.stored} & set(BUFFERS)
    loads = (s.operand for s in program.steps if s.operand is not None)
    operands = {o.name: o for o in (*loads, *(o for o, _ in chain.stored))}
    buffer = f"float* {buffered.pop()}" if buffered else "const float* acc"
    head = f"const auto {name} = [&]({buffer}, const int64_t* at, int64_t length) {INLINE}"
    with w.block(head, "};"):
        w.line("(void)at;")
        run = axis % max(1, len(chain.stored[0][0].axes))
        for operand in operands.values():
            _place(w, operand, run, buffer)
        express = Express(program, Addresses(), w)
        steps = program.list_needed_steps([n for _, n in chain.stored])
        fixed = _find_invariant_steps(program, steps, run)
        if fixed:
            w.line("constexpr int64_t j = 0;")
            w.line("constexpr int n = VEC;")
            express.vector([s for s in steps if s.name in fixed], lambda n: n, lanes_rows=False)
        with w.block("for (int64_t j = 0; j < length; j += VEC)"):
            w.line("const int n = (int)(length - j < VEC ? length - j : VEC);")
            express.vector([s for s in steps if s.name not in fixed], lambda n: n, lanes_rows=False)
            for operand, step in chain.stored:
                value = step
                if express.constant(program.step(step)):
                    value = f"ws::splat({program.step(step).text})"
                express.store(operand, value, stream=operand.name not in BUFFERS)


def _place(w: Writer, operand: Operand, run: int, buffer: str) -> None:
    """`in0_at`, where the operand's part of the run starts, and `in0_col`, its stride along the run."""
    name = operand.name
    if operand.nibbles is not None:
        raise Unsupported("values of four bits in a chain on a CPU")
    if name in BUFFERS:
        w.line(f"{buffer.removesuffix(name)}const {name}_at = {name};")
        w.line(f"constexpr int64_t {name}_col = 1;")
        return
    const = "const " if name.startswith("in") else ""
    steps = {a: f"({name}_shape[{d}] == 1 ? 0 : {name}_stride[{d}])"
             for d, a in enumerate(operand.axes) if a is not None}  # fmt: skip
    terms = "".join(f" + at[{axis}] * {step}" for axis, step in sorted(steps.items()))
    for d, axis in enumerate(operand.axes):
        if axis is None:
            w.line(f'static_assert({name}_shape[{d}] == 1, "requires: {name}_shape[{d}] == 1");')
    w.line(f"{const}{name}_t* const {name}_at = {name}{terms};")
    w.line(f"constexpr int64_t {name}_col = {steps.get(run, '0')};")


def _find_invariant_steps(program: Program, steps: Sequence[Expr], run: int) -> set[str]:
    """Steps that are the same all along a run (of per-channel operands, say): written once before its loop, for the
    stores in it keep the compiler from doing so."""
    fixed_axes: set[str] = set()
    constant = {s.name for s in program.steps if not s.args and s.operand is None}
    for step in steps:
        if step.operand is not None:
            if step.operand.name not in BUFFERS and run not in step.operand.axes:
                fixed_axes.add(step.name)
        elif (
            fixed_axes & set(step.args)
            and set(step.args) <= fixed_axes | constant
            and not _BY_POSITION.search(step.text)
        ):
            fixed_axes.add(step.name)
    return fixed_axes


def _as_float(program: Program, step: str) -> str:
    """The step, or what turns its mask into 0 and 1."""
    return f"{step}_as_float" if program.step(step).kind == "m" else step


def _casts(program: Program) -> tuple[Expr, ...]:
    """Masks that leave the chain, as 0 and 1."""
    unit = Expr("as_float_1", "1.0f", (), "f", True, 0, cost=0)
    zero = Expr("as_float_0", "0.0f", (), "f", True, 0, cost=0)
    masks = [n for _, n in program.outputs if program.step(n).kind == "m"]
    text = "ws::select({0}, {1}, {2})"
    casts = [Expr(_as_float(program, n), text, (n, unit.name, zero.name), "f", True, 0) for n in masks]
    return (unit, zero, *casts) if casts else ()


def lower_chain(graph: Graph, nodes: Iterable[str]) -> Program:
    """Raises TaskError or Unsupported for what is no chain."""
    region = make_region(graph, nodes)
    if find_stepped(graph, (graph.by_name[n] for n in region.nodes)):
        raise Unsupported("a cast that depends on halves, which a kernel holds in float32")
    program = lower(graph, region)
    if program.reductions:
        raise Unsupported("a reduction in a chain")
    return program


def _dense(graph: Graph, value: str, name: str) -> Operand:
    """The value as the kernel holds it: float32, dense along the run."""
    spec = graph.specs[value]
    return Operand(name, value, "float32", tuple(range(len(spec.shape))), spec.shape, spec.stride)


def _rename_operands(
    program: Program, names: dict[str, str], shared: tuple[Operand, ...], graph: Graph
) -> Program:
    """Operands called as the region calls them, and the values shared with the kernel as its buffers. Of what is unpacked in the
    region, the bytes are the operand."""

    def rename(operand: Operand) -> Operand:
        operand = _drop_added_dims(operand)
        if not operand.plain:
            raise Unsupported("a view that splits dimensions in a chain")
        buffer = next((o for o in shared if o.value == operand.value), None)
        if buffer is not None:
            return buffer
        packed = None if operand.value in names else find_packed_value(graph, operand.value)
        if packed is not None:
            return replace(operand, name=_name_operand(names, packed.stored), nibbles=packed.order)
        return replace(operand, name=_name_operand(names, operand.value))

    steps = tuple(s if s.operand is None else replace(s, operand=rename(s.operand)) for s in program.steps)
    inputs = tuple(rename(o) for o in program.inputs)
    return Program(inputs, tuple((rename(o), n) for o, n in program.outputs), steps, program.groups)


def _drop_added_dims(operand: Operand) -> Operand:
    """The operand without the dimensions of one element that `unsqueeze` put behind others of its own."""
    firsts = [i for i, d in enumerate(operand.dims) if d not in operand.dims[:i]]
    added = [i for i in range(len(operand.dims)) if i not in firsts]
    if not added or any(operand.axes[i] is not None or operand.shape[i] != 1 for i in added):
        return operand
    return replace(
        operand,
        axes=tuple(operand.axes[i] for i in firsts),
        shape=tuple(operand.shape[i] for i in firsts),
        stride=tuple(operand.stride[i] for i in firsts),
        dims=tuple(operand.dims[i] for i in firsts),
    )


def _name_operand(names: dict[str, str], value: str) -> str:
    if value not in names:
        raise Unsupported(f"{value} is neither an input nor an output of the region")
    return names[value]


def _load_of(program: Program, name: str) -> str:
    """The step that loads an operand."""
    for step in program.steps:
        if step.operand is not None and step.operand.name == name:
            return step.name
    raise Unsupported(f"a chain that does not read {name}")


def _check_spans(graph: Graph, value: str, stored: tuple[tuple[Operand, str], ...]) -> None:
    full_axes = tuple(range(len(graph.specs[value].shape)))
    if not stored or any(o.axes != full_axes for o, _ in stored):
        raise Unsupported(f"a chain that does not keep the shape of {value}")
