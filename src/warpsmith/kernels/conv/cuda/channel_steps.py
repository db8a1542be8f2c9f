"""Reductions over the channels of one place, and what is computed around them, as a walk over values that a kernel holds.

In: a lowered program that reduces dimension 1, one of whose operands is called "acc": the values held; `at`, the index of
the place, is in scope, with channel 0. Out: C++ that reads the other operands, reduces, and stores what the program yields.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....codegen.cuda.cuda_chain import place
from ....codegen.cuda.lanes import Lanes, Places
from ....codegen.passes import Pass, passes
from ....codegen.program import Operand, Program
from ....codegen.writer import Writer
from ...reduce.cuda import cuda_states as states


@dataclass(frozen=True)
class Walk:
    """The parts of a loop over channels as C++. `loop`: over channels c; `take`: the value held of channel c; `merge`: makes {} of all threads that share the
    place one state; `inside`: may the thread store? `lead`: may it store what is one a place? ("": always)"""

    loop: str
    unroll: str
    take: str
    inside: str
    lead: str
    merge: str = ""
    begin: str = ""  # of the loop's body


class _Column(Places):
    """Operands of a place: from channel 0 on."""

    def element(self, operand: Operand) -> str:
        return f"{operand.name}_at[c * {operand.name}_run]"


def column_steps(w: Writer, program: Program, walk: Walk) -> None:
    lanes = Lanes(program, _Column(), w)
    for operand in program.operands:
        if operand.name != "acc":
            place(w, operand, 1)
    done: set[str] = set()
    _own_steps(program, lanes, 0, done)
    for p in passes(program):
        _pass(w, program, lanes, p, walk)
        if not p.last:
            _own_steps(program, lanes, p.number, done)
    per_place = [(o, n) for o, n in program.outputs if not program.step(n).full]
    if per_place:
        with w.block(f"if ({walk.lead})" if walk.lead else ""):
            lanes.write_rows(per_place)


def _own_steps(program: Program, lanes: Lanes, stage: int, done: set[str]) -> None:
    """A place's own values that are known once `stage` passes are over."""
    fresh = [
        s for s in program.steps if not s.full and s.stage == stage and not s.is_reduction and s.name not in done
    ]  # fmt: skip
    done |= {s.name for s in fresh}
    lanes.scalar(fresh)


def _pass(w: Writer, program: Program, lanes: Lanes, p: Pass, walk: Walk) -> None:
    for step in p.reductions:
        states.declare(w, step)
    w.line(f"#pragma unroll {walk.unroll}".rstrip())
    with w.block(walk.loop):
        if walk.begin:
            w.line(walk.begin)
        w.line("constexpr int u = 0, v = 0;")
        for operand in {o.name: o for o in lanes.operands(p.sources)}.values():
            name = operand.name
            source = (walk.take, "float") if name == "acc" else (lanes.places.element(operand), f"{name}_t")
            w.line(f"const ws::Pack<{source[1]}, 1> {name}_pack[] = {{{{{{{source[0]}}}}}}};")
        lanes.element(p.sources)
        if p.last:
            with w.block(f"if ({walk.inside})" if walk.inside else ""):
                for operand, name_of_step in program.outputs:
                    if program.step(name_of_step).full:
                        value = f"ws::narrowed<{operand.name}_t>({lanes.value(name_of_step)})"
                        w.line(f"{lanes.places.element(operand)} = {value};")
        for name in dict.fromkeys(s.args[0] for s in p.reductions):
            w.line(f"const float {name}_lanes[1] = {{{lanes.value(name)}}};")
        for step in p.reductions:
            w.line(f"{step.name}_state.add({step.args[0]}_lanes, c);")
    for step in p.reductions:
        if walk.merge:
            w.line(walk.merge.format(f"{step.name}_state"))
        states.values(w, program, step)
