"""What a policy may see of a task, in one function.

In: what authors are shown of a task. Out: an `Observation`: the reference's source, shapes and dtypes, the physical limit, baselines, the machine
sheet, how a unit is written, schedules that exist. Nothing comes from a judge that is open: neither its inputs, nor its seeds, nor the shapes
that it drew in secret. What a policy is told of its earlier attempts is `Reward.feedback`, which leaves these out, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..records import Graph, Record
from .actions import ScheduleOffer
from .author_views import HeaderView, TaskView
from .describe import format_spec


class Observation(Record):
    task: str  # what names it
    name: str
    target: str
    reference: str  # the module's Python, where it is one file
    inputs: tuple[str, ...]  # "x: float32[8,16]", those of a call, then parameters and buffers
    outputs: tuple[str, ...]
    variants: tuple[str, ...]  # other shapes at which a kernel must be right, as the task's file states them
    flops: int
    least_bytes: int
    limit_us: float | None  # microseconds; None: this machine's rates are not known
    bound: str  # "memory" or "compute"
    baselines: dict[str, float]  # name → median microseconds; empty: not measured here yet
    hardware: str
    machine: str  # its sheet
    unit_header: str = ""  # task.h of the whole graph; empty: it is no single region
    unit_rules: str = ""  # how a unit is written
    schedules: tuple[ScheduleOffer, ...] = ()
    attempts: tuple[str, ...] = ()  # what earlier attempts came to, the oldest first


def make_observation(
    view: TaskView, graph: Graph, machine: str, header: HeaderView | None, schedules: Sequence[ScheduleOffer]
) -> Observation:
    """Make what a policy may see of a task before its first attempt."""
    return Observation(
        task=view.task, name=view.name, target=view.target, reference=view.source,
        inputs=tuple(f"{i.name}: {format_spec(i.spec)}" for i in sorted(graph.inputs, key=lambda i: i.role != "input")),
        outputs=tuple(format_spec(graph.specs[name]) for name in graph.returned), variants=view.variants,
        flops=view.flops, least_bytes=view.least_bytes, limit_us=view.limit_us, bound=view.bound, baselines=view.baselines,
        hardware=view.hardware, machine=machine, unit_header=header.task_h if header is not None else "",
        unit_rules=header.rules if header is not None else "", schedules=tuple(schedules),
    )  # fmt: skip


SOLUTION_RULES = """\
Write one Python file with `class ModelNew(torch.nn.Module)`: constructed and called as `Model`, equal to it within rounding at every shape.
Its work must be done by a kernel of its own, for instance C++ built with torch.utils.cpp_extension.load_inline. Answer with the file in one
block that begins with ```python."""
UNIT_RULES = """\
Write one unit that covers the whole graph. Answer with its source in one block that begins with ```cpp, its first line `// warpsmith-unit: 1`."""


def write_prompt(observation: Observation, form: str = "solution") -> str:
    """Write an observation as text, what stays the same for a task first. `form`: "solution" or "unit": what is asked for."""
    o = observation
    floor = "unknown" if o.limit_us is None else f"{o.limit_us:.1f} us, bound by {o.bound}"
    sections = [
        f"# Make this module faster: {o.name}, on {o.hardware}\n\n```python\n{o.reference.strip()}\n```",
        "# Shapes\n\n" + "\n".join([*(f"- {i}" for i in o.inputs), *(f"- returns {r}" for r in o.outputs)]),
        *(["# Other shapes at which it must be right\n\n" + "\n".join(f"- {v}" for v in o.variants)] if o.variants else []),
        f"# Limit\n\n{o.flops} FLOPs, {o.least_bytes} bytes at least, {floor}.",
        o.machine.strip(),
        *([f"# task.h\n\n```cpp\n{o.unit_header.strip()}\n```\n\n{o.unit_rules.strip()}"] if form == "unit" else []),
        f"# What to write\n\n{UNIT_RULES if form == 'unit' else SOLUTION_RULES}",
        *(["# Earlier attempts\n\n" + "\n\n".join(f"{n}. {a}" for n, a in enumerate(o.attempts, 1))] if o.attempts else []),
    ]  # fmt: skip
    return "\n\n".join(sections) + "\n"


__all__ = ["Observation", "make_observation", "write_prompt"]
