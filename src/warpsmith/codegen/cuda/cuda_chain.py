"""Pointwise nodes fused into a CUDA kernel that has loops of its own: before it (a prologue) or after it (an epilogue).

In: a chain as `op_chain` finds it. Out: device functions over a pack, V neighbours along one dimension of the value
where chain and kernel meet, from the index `at` on (one entry a dimension):

    prologue0<V>(o, at)        what the kernel reads, computed from inputs, as float
    epilogue_before_pool<V>(o, acc, at)   what the kernel made, changed, for the kernel to go on with
    epilogue<V>(o, acc, at)    what the kernel made → stored to the outputs
    epilogue<V>(o, acc, acc2, at)   the same of two values that it made

`o` holds the unit's operands.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..fusion.op_chain import BUFFERS, Chain
from ..program import Operand, Unsupported
from ..writer import Writer
from .lanes import Lanes, Places


class Run(Places):
    """Operands along one run of a chain."""

    def element(self, operand: Operand) -> str:
        return f"{operand.name}_at"

    def lane_stride(self, operand: Operand) -> str:
        return f"{operand.name}_run"


def write_operands(w: Writer, names: Sequence[str]) -> None:
    with w.block("struct Operands", "};"):
        for name in names:
            w.line(f"{'const ' if name.startswith('in') else ''}{name}_t* __restrict__ {name};")


def write_chain(w: Writer, chain: Chain, name: str, axis: int) -> None:
    """`axis`: the dimension that packs lie along."""
    program, stored = chain.program, chain.stored
    buffered = [(o, n) for o, n in stored if o.name in BUFFERS]
    operands = {o.name: o for o in [s.operand for s in program.steps if s.operand is not None]}
    written = [(o, n) for o, n in stored if o.name not in BUFFERS]
    run = axis % max(1, len(stored[0][0].axes))
    lanes = Lanes(program, Run(), w)
    result = "ws::Pack<float, V>" if buffered else "void"
    buffers = (
        [] if any(o.name == "to" for o, _ in buffered) else ["acc", *(["acc2"] if "acc2" in operands else [])]
    )
    acc = "".join(f"const ws::Pack<float, V>& {m}, " for m in buffers)
    w.line("template <int V>")
    head = f"__device__ __forceinline__ {result} {name}([[maybe_unused]] const Operands& o, {acc}[[maybe_unused]] const int64_t* at)"
    with w.block(head):
        w.line("constexpr int u = 0;")
        for buffer in ("acc", "acc2"):
            if buffer in operands:
                w.line(f"const ws::Pack<float, V> {buffer}_pack[] = {{{buffer}}};")
        for operand in operands.values():
            if operand.name not in BUFFERS:
                place(w, operand, run)
                w.line(
                    f"const ws::Pack<{operand.name}_t, V> {operand.name}_pack[] = {{{lanes.read(operand)}}};"
                )
        for operand, _ in written:
            place(w, operand, run)
            w.line(f"ws::Pack<{operand.name}_t, V> {operand.name}_made;")
        if buffered:
            w.line("ws::Pack<float, V> to;")
        w.line("#pragma unroll")
        with w.block("for (int v = 0; v < V; v++)"):
            lanes.element([n for _, n in stored])
            for operand, step in written:
                w.line(f"{operand.name}_made.at[v] = ws::narrowed<{operand.name}_t>({lanes.value(step)});")
            for _, step in buffered:
                w.line(f"to.at[v] = {lanes.value(step)};")
        for operand, _ in written:
            name = operand.name
            w.line(f"ws::write<V, {name}_run, {name}_whole, NT>({name}_at, {name}_made);")
        if buffered:
            w.line("return to;")


def place(w: Writer, operand: Operand, run: int) -> None:
    """`in0_at`, where the operand's part of the pack starts; `in0_run`, its stride there; `in0_whole`: is it aligned?"""
    name, halves = operand.name, operand.nibbles is not None  # of bytes: a pack starts with a whole one
    if halves and operand.axes[-1] != run:
        raise Unsupported("values of four bits across a run")
    steps = {a: f"({name}_shape[{d}] == 1 ? 0 : {name}_stride[{d}])"
             for d, a in enumerate(operand.axes) if a is not None}  # fmt: skip
    for d, axis in enumerate(operand.axes):
        if axis is None:
            w.line(f'static_assert({name}_shape[{d}] == 1, "requires: {name}_shape[{d}] == 1");')
    for axis, step in sorted(steps.items()):
        w.line(f"constexpr int64_t {name}_s{axis} = {step};")
    places = {a: f"at[{a}] / 2" if halves and a == run else f"at[{a}]" for a in sorted(steps)}
    terms = "".join(f" + {at} * {name}_s{axis}" for axis, at in places.items())
    const = "const " if name.startswith("in") else ""
    w.line(f"{const}{name}_t* const {name}_at = o.{name}{terms};")
    w.line(f"[[maybe_unused]] constexpr int64_t {name}_run = {f'{name}_s{run}' if run in steps else '0'};")
    if halves:
        w.line(f'static_assert({name}_run <= 1, "requires: bytes that are dense along the run");')
    count = "2 * " if halves else ""
    tests = " && ".join(f"{count}{name}_s{a} % V == 0" for a in sorted(steps) if a != run) or "true"
    w.line(f"[[maybe_unused]] constexpr bool {name}_whole = {tests};")
