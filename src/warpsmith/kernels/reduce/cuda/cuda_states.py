"""What a reduction keeps, as the structs of `warpsmith_cuda_states.h`: their names, sizes and values."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ....codegen.program import Expr, Program
from ....codegen.writer import Writer

STATES: Mapping[str, tuple[str, int]] = MappingProxyType({  # reduction → struct, words of 4 bytes
    "sum": ("SumState", 1), "count": ("CountState", 2), "prod": ("ProdState", 1), "max": ("MaxState", 1),
    "min": ("MinState", 1), "fmax": ("FmaxState", 1), "argmax": ("ArgmaxState", 2), "moments": ("MomentsState", 3),
    "softmax": ("SoftmaxState", 2),
})  # fmt: skip
TOTALS: Mapping[str, str] = MappingProxyType({"sum": "+", "prod": "*", "max": ">", "min": "<"})


def declare(w: Writer, step: Expr, many: str = "", ordered: bool = False) -> None:
    """`x_state` of step x, or as `many`, C++, `x_states`. `ordered`: a thread adds its elements in order."""
    w.line(f"{struct(step, ordered)} {step.name}_state{f's[{many}]' if many else ''};")


def struct(step: Expr, ordered: bool = False) -> str:
    """In C++, what holds the state of a step."""
    return f"ws::{'Ordered' if ordered and step.reduction == 'argmax' else ''}{STATES[step.reduction][0]}"


def words(step: Expr) -> int:
    return STATES[step.reduction][1]


def values(w: Writer, program: Program, step: Expr) -> None:
    """The row's values that a merged state holds."""
    name, state = step.name, f"{step.name}_state"
    partner = next((s.name for s in program.reductions if s.of == name), "")
    if step.reduction == "moments":
        w.line(f"[[maybe_unused]] const float {name} = REDUCE == 0 ? ws::nan : {state}.mean;")
        first, second = "", "squares"
    elif step.reduction == "softmax":
        w.line(f"[[maybe_unused]] const float {name} = {state}.max;")
        first, second = "", "sum"
    elif step.reduction == "argmax":
        first, second = f"const int64_t {name} = {state}.index;", ""
    else:
        kind = "int64_t" if step.reduction == "count" else "float"
        first, second = f"const {kind} {name} = {state}.value;", ""
    if first:
        w.line(first)
    if second and partner:
        w.line(f"const float {partner} = {state}.{second};")
