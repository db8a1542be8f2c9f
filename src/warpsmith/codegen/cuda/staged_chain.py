"""A chain before a CUDA kernel in two steps, so that what it reads is under way while the kernel computes: narrow weights, above all.

In: a chain as `op_chain` finds it, which ends in a half type. Out: device functions over V neighbours along one dimension of the value that the kernel
reads, from the index `at` on:

    prologue0_places                                places of 16 bytes of a thread in shared memory that the VEC elements of a step take
    prologue0_copy<V>(o, at, there, to, pitch, i)   pack number i of a step as it lies in memory → the thread's places, `pitch` bytes apart, by `cp.async`
    prologue0_read_uniform<V>(o, at)                operands that are the same along the run (scales, zero points), as they are
    prologue0_made<V>(uniform, from, pitch, i)      these and the places → V elements of the half type, two in a register

Where each operation of the chain is one that pairs of half precision have, and its tensors have the half type, elements are made in pairs, rounded as
torch rounds them; else in float32. Pairs of four-bit operands are (0, 4), (1, 5), (2, 6) and (3, 7) of eight neighbours: PERMUTED says so.
"""

from __future__ import annotations

import re
import struct

from ..fusion.op_chain import Chain
from ..program import Operand, Program
from ..writer import Writer
from .cuda_chain import Run, place
from .lanes import Lanes, is_high_first

PAIRED = ("{0} + {1}", "{0} - {1}", "{0} * {1}", "ws::to_float({0})")  # operations that pairs have
NARROW = ("int8", "float8_e4m3fn", "float8_e5m2")  # types whose neighbours are widened to pairs
LITERAL = re.compile(r"-?[\d.]+(e[+-]?\d+)?f")


def write_staged_chain(w: Writer, chain: Chain, name: str, half: str, rounded: bool) -> None:
    """`half`: the dtype that elements are made in. `rounded`: whether each tensor of the chain has it."""
    program, ((to, stored),) = chain.program, chain.stored
    run = len(to.axes) - 1
    operands = list({s.operand.name: s.operand for s in program.steps if s.operand is not None}.values())
    moving = [o for o in operands if run in o.axes]
    paired = rounded and _has_pairs(program, moving, half)
    nibbles = paired and moving[0].nibbles is not None
    whole_pairs = "V % 8 == 0" if nibbles else "V % 2 == 0"
    w.line(f"constexpr int {name}_places = {' + '.join(_places(o) for o in moving)};")
    w.line(f"template <int V>\nconstexpr bool PERMUTED = {'V % 8 == 0' if nibbles else 'false'};")
    write_copy(w, moving, name, run)
    uniform = [o for o in operands if o not in moving]
    _write_uniform(w, uniform, name, run)
    head = f"__device__ __forceinline__ ws::Halves<V> {name}_made([[maybe_unused]] const {name}_uniform& uniform, const unsigned char* from, int pitch, int i)"
    w.line("template <int V>")
    with w.block(head):
        _take_packs(w, moving)
        w.line("ws::Halves<V> to;")
        if paired:
            with w.block(f"if constexpr ({whole_pairs})"):
                _write_pairs(w, program, stored, uniform)
            with w.block("else"):
                _write_floats(w, program, stored, operands, uniform)
        else:
            _write_floats(w, program, stored, operands, uniform)
        w.line("return to;")


def _write_uniform(w: Writer, uniform: list[Operand], name: str, run: int) -> None:
    """Write the struct of the operands that are the same along the run, and the function that reads them."""
    w.line(f"struct {name}_uniform {{ {' '.join(f'{o.name}_t {o.name};' for o in uniform)} }};")
    w.line("template <int V>")
    head = f"__device__ __forceinline__ {name}_uniform {name}_read_uniform([[maybe_unused]] const Operands& o, [[maybe_unused]] const int64_t* at)"
    with w.block(head):
        for operand in uniform:
            place(w, operand, run)
        w.line(f"return {{{', '.join(f'ws::read_only({o.name}_at)' for o in uniform)}}};")


def write_copy(w: Writer, moving: list[Operand], name: str, run: int) -> None:
    """Write the copy of what moves along the run, an operand after the other."""
    w.line("template <int V>")
    head = f"__device__ __forceinline__ void {name}_copy(const Operands& o, const int64_t* at, bool there, unsigned char* to, int pitch, int i)"
    with w.block(head):
        for operand in moving:
            place(w, operand, run)
            stride = "1" if operand.nibbles is not None else f"{operand.name}_run"
            w.line(
                f"ws::copy_pack<{_elements(operand)}, {stride}, {operand.name}_whole>(to, pitch, i, {operand.name}_at, there);"
            )
            w.line(f"to += {_places(operand)} * pitch;")


def _take_packs(w: Writer, moving: list[Operand]) -> None:
    """Write the packs as they lie in the thread's places."""
    for operand in moving:
        count = _elements(operand)
        w.line(f"const auto {operand.name}_raw = ws::copied_pack<{count}, {operand.name}_t>(from, pitch, i);")
        w.line(f"from += {_places(operand)} * pitch;")


def _write_pairs(w: Writer, program: Program, stored: str, uniform: list[Operand]) -> None:
    """Write the elements in pairs of the half type."""
    lanes = Lanes(program, Run(), w)
    w.line("#pragma unroll")
    with w.block("for (int p = 0; p < V / 2; p++)"):
        for step in program.list_needed_steps([stored]):
            if lanes.constant(step):
                continue
            operand = step.operand
            if operand is None:
                text = step.text.format(*(lanes.value(a) for a in step.args))
            elif operand in uniform:
                text = f"ws::splat_pair(uniform.{operand.name})"
            elif operand.nibbles is not None:
                text = f"ws::nibbles_at<left_t, {is_high_first(operand)}>({operand.name}_raw, p)"
            else:
                text = f"ws::pair_at<left_t>({operand.name}_raw, p)"
            w.line(f"const ws::Pair<left_t> {step.name} = {text};")
        w.line(f"to.pair[p] = {stored}.bits;")


def _write_floats(
    w: Writer, program: Program, stored: str, operands: list[Operand], uniform: list[Operand]
) -> None:
    """Write the elements in float32, rounded once."""
    lanes = Lanes(program, Run(), w)
    w.line("constexpr int u = 0;")
    for operand in operands:
        if operand in uniform:
            text = f"ws::splat_pack<V>(uniform.{operand.name})"
        elif operand.nibbles is not None:
            text = f"ws::split_nibbles<V, {is_high_first(operand)}>({operand.name}_raw.pack())"
        else:
            text = f"{operand.name}_raw.pack()"
        kind = "uint8_t" if operand.nibbles is not None else f"{operand.name}_t"
        w.line(f"const ws::Pack<{kind}, V> {operand.name}_pack[] = {{{text}}};")
    w.line("left_t made[V + V % 2] = {};")
    w.line("#pragma unroll")
    with w.block("for (int v = 0; v < V; v++)"):
        lanes.element([stored])
        w.line(f"made[v] = ws::store_as<left_t>({lanes.value(stored)});")
    w.line("#pragma unroll")
    w.line("for (int v = 0; v < V; v += 2) to.pair[v / 2] = ws::make_pair(made[v], made[v + 1]).bits;")


def _elements(operand: Operand) -> str:
    """Return how many of the operand's elements V values take."""
    return "V / 2" if operand.nibbles is not None else "V"


def _places(operand: Operand) -> str:
    """Count the places that the operand's part of a step takes, as C++."""
    return f"ws::copied_places<{_elements(operand).replace('V', 'VEC')}, {operand.name}_t>"


def _has_pairs(program: Program, moving: list[Operand], half: str) -> bool:
    """Tell whether pairs have all that the chain reads and does."""
    if len(moving) != 1 and any(o.nibbles is not None for o in moving):
        return False
    for step in program.steps:
        operand = step.operand
        if operand is not None:
            narrow = operand.nibbles is not None or operand.dtype in NARROW
            if operand.dtype != half and not (narrow and operand in moving):
                return False
        elif step.args:
            first = program.step(step.args[0])
            if step.text not in PAIRED or step.kind != "f" or (not first.args and first.operand is None):
                return False
        elif not _is_exact(step.text, half):
            return False
    return True


def _is_exact(text: str, half: str) -> bool:
    """Tell whether a half type holds a C++ literal exactly."""
    if LITERAL.fullmatch(text) is None:
        return False
    value = float(text[:-1])
    if half == "bfloat16":
        return (
            struct.pack(">f", value)[2:] == b"\0\0"
            and struct.unpack(">f", struct.pack(">f", value))[0] == value
        )
    try:
        return struct.unpack("e", struct.pack("e", value))[0] == value
    except OverflowError:
        return False
