"""A task and its regions as views: source, graph in lines, operands, roofline.

In: a `Task`, and this machine's peak rates where they are known. Out: views. Nothing is judged here; the
rates are those that the judge measured, or measures at the first use (two seconds).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import machine
from ..config import Config
from ..errors import JudgeError, ToolchainError
from ..judge.roofline.limits import limit, region_limit
from ..judge.roofline.peaks import Peaks, load_peaks, measure_peaks
from ..records import Graph, Node, Region, Task, TensorSpec
from .author_views import Operand, RegionView, TaskView
from .regions import techniques


def find_peaks(config: Config, target: str) -> Peaks | None:
    """Peak rates of the processor or GPU as a judge knows them by now; None where there is no such device, or no compiler."""
    if target == "cuda" and machine.gpu() is None:
        return None
    try:
        threads, device = machine.threads(), "cuda" if target == "cuda" else "cpu"
        peaks = load_peaks(config.cache, threads, device=device)
        return peaks or measure_peaks(config.cache, threads, compiler=config.compiler, device=device)
    except (ToolchainError, JudgeError):
        return None


def view_task(
    spec: str, task: Task, target: str, regions: Sequence[Region], peaks: Peaks | None, baselines: dict[str, float]
) -> TaskView:  # fmt: skip
    floor = limit(task.graph, peaks) if peaks is not None else None
    return TaskView(
        task=spec, name=task.name, task_id=task.id, target=target, note=task.note, source=task.source.text,
        graph=list_graph_lines(task.graph), variants=tuple(_variant_line(v.name, v.graph) for v in task.variants[1:]),
        flops=task.graph.flops, least_bytes=floor.least_bytes if floor else task.graph.least_bytes,
        limit_us=floor.seconds * 1e6 if floor else None, bound=floor.bound if floor else "",
        peaks=floor.peaks if floor else None,
        baselines=baselines, hardware=name_hardware(target),
        regions=tuple(view_region(task.graph, r, regions, peaks, target) for r in regions),
    )  # fmt: skip


def view_region(
    graph: Graph, region: Region, regions: Sequence[Region], peaks: Peaks | None, target: str
) -> RegionView:
    """`regions`: the proposed ones, which give the region its number."""
    floor = region_limit(graph, region, peaks, cold=True) if peaks is not None else None
    numbers = {r.id: i for i, r in enumerate(regions, 1)}
    values = (*region.inputs, *region.outputs)
    return RegionView(
        number=numbers.get(region.id, 0), nodes=region.nodes,
        ops=tuple(graph.by_name[n].op for n in region.nodes),
        inputs=tuple(_operand(graph, f"in{i}", v) for i, v in enumerate(region.inputs)),
        outputs=tuple(_operand(graph, f"out{i}", v) for i, v in enumerate(region.outputs)),
        signature=region.signature, flops=sum(graph.by_name[n].flops for n in region.nodes),
        least_bytes=floor.least_bytes if floor else sum(graph.specs[v].nbytes for v in values),
        limit_us=floor.seconds * 1e6 if floor else None, bound=floor.bound if floor else "",
        techniques=techniques(graph, region, target),
    )  # fmt: skip


def name_hardware(target: str) -> str:
    """Name the device that results of this machine are measured on."""
    if target != "cuda":
        return machine.cpu_name()
    gpu = machine.gpu()
    return gpu.name if gpu is not None else "no GPU here"


def list_graph_lines(graph: Graph) -> tuple[str, ...]:
    """Inputs, one line a node, outputs; names are those that regions are made of."""
    inputs = [f"{i.name}: {format_spec(i.spec)}  # {i.role} {i.target}" for i in graph.inputs]
    returned = [o.value if o.value is not None else repr(o.literal) for o in graph.outputs]
    return (*inputs, *(format_node(n) for n in graph.nodes), f"return {', '.join(returned)}")


def format_node(node: Node) -> str:
    """`softmax = aten._softmax.default(x, 1, False) -> float32[8,16]  # task.py:12 in forward`."""
    arguments = [_argument(a) for a in node.args]
    arguments += [f"{k}={_argument(v)}" for k, v in node.kwargs.items() if v is not None]
    results = ", ".join(format_spec(v.spec) for v in node.outputs if v is not None)
    names = [v.name for v in node.outputs if v is not None]
    suffix = f" ({', '.join(names)})" if names != [node.name] else ""
    where = f"  # {node.where}" if node.where else ""
    return f"{node.name}{suffix} = {node.op}({', '.join(arguments)}) -> {results}{where}"


def format_spec(spec: TensorSpec) -> str:
    text = f"{spec.dtype}[{','.join(map(str, spec.shape))}]"
    return text if spec.contiguous else f"{text} strides({','.join(map(str, spec.stride))})"


def _variant_line(name: str, graph: Graph) -> str:
    inputs = ", ".join(f"{i.target}: {format_spec(i.spec)}" for i in graph.inputs if i.role == "input")
    return f"{name}: {inputs}"


def _operand(graph: Graph, name: str, value: str) -> Operand:
    spec = graph.specs[value]
    roles: dict[str, str] = {i.name: i.role for i in graph.inputs}
    role = roles.get(value) or ("result" if value in graph.returned else "value")
    return Operand(name=name, value=value, dtype=spec.dtype, shape=spec.shape, stride=spec.stride, role=role)


def _argument(arg: Any) -> str:
    if isinstance(arg, dict):
        return str(next(iter(arg.values())))
    if isinstance(arg, list | tuple):
        return f"[{', '.join(_argument(a) for a in arg)}]"
    return repr(arg)
