"""A candidate as straight-line Python: the user's graph with regions replaced by calls of compiled units.

In: a graph and the regions that units cover. Out: the text of a module that needs torch and nothing of
warpsmith, with one function, `bind(libraries)`, that opens the units' libraries in region order and returns
`run(inputs)`. So the same text is deployed here and shipped in an exported package. ATen ops run through
their overloads; values die after their last use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import TaskError
from ..records import Graph, GraphOutput, Node, Region, TensorSpec
from ..tasks.regions import topological_groups
from .fx_graphs import find_updated_input, returns_list
from .in_place import find_in_place_updates
from .interpreter import aten_op, find_executed_op, takes_device

PRELUDE = '''\
import ctypes

import torch


def open_unit(path):
    """(entry point, bytes of workspace) of a unit's library.

    Its symbols of OpenMP and of the CUDA runtime are torch's own: one thread pool, one context.
    """
    try:
        library = ctypes.CDLL(path)
    except OSError:
        share_runtimes()
        library = ctypes.CDLL(path)
    library.warpsmith_run.argtypes = [ctypes.c_void_p] * ARGUMENTS
    library.warpsmith_run.restype = RESULT
    library.warpsmith_workspace_bytes.restype = ctypes.c_size_t
    return library.warpsmith_run, library.warpsmith_workspace_bytes()


def share_runtimes():
    """Make the OpenMP and CUDA runtimes that torch brought visible to libraries that are opened later."""
    names = ("gomp", "iomp", "libomp", "libcudart")
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if any(name in line for name in names)}
    for path in paths:
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)


def matched(tensor, stride):
    """The tensor with these strides, at an address that is a multiple of 64."""
    expanded = [axis for axis, (n, s) in enumerate(zip(tensor.shape, stride)) if s == 0 and n > 1]
    if any(tensor.stride(axis) != 0 for axis in expanded):
        raise ValueError("an input is not expanded as it was when the module was exported")
    same = all(n < 2 or s == t for n, s, t in zip(tensor.shape, stride, tensor.stride()))
    if same and tensor.data_ptr() % 64 == 0:
        return tensor
    made = torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype, device=tensor.device)
    target, source = made, tensor
    for axis in expanded:
        target, source = target.narrow(axis, 0, 1), source.narrow(axis, 0, 1)
    target.copy_(source)
    return made
'''
RESULT = {
    "cpu": "ARGUMENTS, RESULT = 4, None  # of a unit's entry point",
    "cuda": "ARGUMENTS, RESULT = 5, ctypes.c_int  # of a unit's entry point, which returns a cudaError_t",
}
CUDA_PRELUDE = '''

def find_encoder():
    """The address of the driver's function that encodes tensor maps, for units that have some; None where there is none."""
    try:
        return ctypes.cast(ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled, ctypes.c_void_p).value
    except (OSError, AttributeError):
        return None


def check(code):
    """A kernel that could not be launched is an error here, before its outputs are read."""
    if code != 0:
        raise RuntimeError(f"a unit's kernel was not launched (CUDA error {code})")
'''


def candidate_source(graph: Graph, regions: Sequence[Region], device: str = "cpu") -> str:
    """The module's text. `run` takes the graph's inputs in order and returns the output leaves; buffers are
    updated in place. On device "cuda" the tensors live there, and units run on torch's current stream.

    Raises TaskError when regions overlap or cannot be ordered, or the graph holds something that cannot be
    run.
    """
    return _Writer(graph, tuple(regions), device).text()


class _Writer:
    def __init__(self, graph: Graph, regions: tuple[Region, ...], device: str) -> None:
        self.graph, self.regions, self.device = graph, regions, device
        self.on_device = "" if device == "cpu" else f", device={device!r}"
        self.constants: dict[str, str] = {}  # expression → name: looked up once, when bound
        self.in_place: dict[str, str] = {}  # name of a node that updates an input → its operation
        self.body: list[str] = []

    def text(self) -> str:
        steps = topological_groups(self.graph, self.regions)
        self.in_place = find_in_place_updates(self.graph, steps)
        dead = _deaths(self.graph, steps)
        for step, names in zip(steps, dead, strict=True):
            if isinstance(step, Region):
                self._unit(self.regions.index(step), step)
            else:
                self._node(step)
            if names:
                self.body.append(f"del {', '.join(map(_local, names))}")
        self._finish()
        setup, run = _indent(self._setup(), 1), _indent(self._run(), 2)
        prelude = PRELUDE.replace("import torch\n", f"import torch\n\n{RESULT[self.device]}\n", 1)
        prelude += CUDA_PRELUDE if self.device == "cuda" else ""
        return (
            f"{prelude}\n\ndef bind(libraries):\n{setup}\n\n    def run(inputs):\n{run}\n\n    return run\n"
        )

    def _setup(self) -> list[str]:
        lines = [f"{name} = {expression}" for expression, name in self.constants.items()]
        for index, region in enumerate(self.regions):
            lines.append(f"unit{index}, bytes{index} = open_unit(libraries[{index}])")
            lines.append(f"In{index} = ctypes.c_void_p * {len(region.inputs)}")
            lines.append(f"Out{index} = ctypes.c_void_p * {len(region.outputs)}")
        if self.device == "cuda":
            lines.append("stream_of, encoder = torch._C._cuda_getCurrentRawStream, find_encoder()")
        return ["enabled, set_enabled = torch.is_grad_enabled, torch._C._set_grad_enabled", *lines]

    def _run(self) -> list[str]:
        names = [_local(i.name) for i in self.graph.inputs]
        unpack = [f"{', '.join(names)}{',' if len(names) == 1 else ''} = inputs"] if names else []
        body = [
            "gradients = enabled()",
            "set_enabled(False)",
            "try:",
            *("    " + line for line in [*unpack, *self.body]),
        ]
        return [*body, "finally:", "    set_enabled(gradients)"]

    def _node(self, node: Node) -> None:
        name = find_executed_op(node.op)
        aten_op(name)
        op = self._constant(f"torch.ops.{self.in_place.get(node.name, name)}._op", "op_")
        args = [self._argument(a) for a in node.args]
        kwargs = dict(node.kwargs)
        if self.device != "cpu" and takes_device(node.op):
            kwargs["device"] = {"device": self.device}
        args += [f"{_identifier(k)}={self._argument(v)}" for k, v in kwargs.items()]
        targets = [_local(v.name) if v is not None else "_" for v in node.outputs]
        # Ops that return tuples are unpacked; an op with one tensor is bound as it is.
        several = len(targets) > 1 or returns_list(node.op)
        target_text = ", ".join(targets) + ("," if several and len(targets) == 1 else "")
        self.body.append(f"{target_text} = {op}({', '.join(args)})")
        if "_" in targets:
            self.body.append("del _")

    def _unit(self, index: int, region: Region) -> None:
        for name in region.inputs:
            spec, local = self.graph.specs[name], _local(name)
            self.body.append(f"if {local}.stride() != {spec.stride!r} or {local}.data_ptr() & 63:")
            self.body.append(f"    {local}_ = matched({local}, {spec.stride!r})")
            self.body.append("else:")
            self.body.append(f"    {local}_ = {local}")
        for name in region.outputs:
            self.body.append(f"{_local(name)} = {self._empty(self.graph.specs[name])}")
        empty = f"torch.empty(bytes{index}, dtype=torch.uint8{self.on_device})"
        self.body.append(f"space = {empty} if bytes{index} else None")
        reads = ", ".join(f"{_local(n)}_.data_ptr()" for n in region.inputs)
        writes = ", ".join(f"{_local(n)}.data_ptr()" for n in region.outputs)
        space = f"space.data_ptr() if bytes{index} else None"
        call = f"unit{index}(In{index}({reads}), Out{index}({writes}), {space}, "
        if self.device == "cuda":
            where = f"{_local(region.outputs[0])}.device.index"
            self.body.append(f"check({call}stream_of({where}), encoder))")
        else:
            self.body.append(f"{call}None)")
        self.body.append(f"del {', '.join(['space', *(f'{_local(n)}_' for n in region.inputs)])}")

    def _empty(self, spec: TensorSpec) -> str:
        return (
            f"torch.empty_strided({spec.shape!r}, {spec.stride!r}, dtype=torch.{spec.dtype}{self.on_device})"
        )

    def _finish(self) -> None:
        """Updates that no node has made where they are, after everything was computed.

        Leaves that alias what is updated are copied first.
        """
        written = {self.graph.by_name[name].output.name for name in self.in_place}
        updates = [o for o in self.graph.outputs if o.role != "output" and o.value not in (None, *written)]
        updated = {find_updated_input(self.graph, o) for o in updates}
        leaves = [o for o in self.graph.outputs if o.role == "output"]
        expressions = [self._leaf(o, updated) for o in leaves]
        self.body.append(f"leaves = ({''.join(e + ', ' for e in expressions)})")
        self.body += [
            f"{_local(find_updated_input(self.graph, o))}.copy_({_local(str(o.value))})" for o in updates
        ]
        self.body.append("return leaves")

    @staticmethod
    def _leaf(output: GraphOutput, updated: set[str]) -> str:
        if output.value is None:
            return repr(output.literal)
        return f"{_local(output.value)}.clone()" if output.value in updated else _local(output.value)

    def _constant(self, expression: str, prefix: str) -> str:
        return self.constants.setdefault(expression, f"{prefix}{len(self.constants)}")

    def _argument(self, arg: Any) -> str:
        if isinstance(arg, list | tuple):
            return f"[{', '.join(map(self._argument, arg))}]"
        if not isinstance(arg, dict):
            if arg is None or isinstance(arg, bool | int | float | str):
                return repr(arg)
            raise TaskError(f"malformed argument in a graph: {arg!r}")
        (tag, content), *remainder = arg.items()
        if remainder or not isinstance(content, str):
            raise TaskError(f"malformed argument in a graph: {arg}")
        if tag == "v":
            return _local(content)
        if tag == "f":
            return self._constant(f"float({content!r})", "number_")
        if tag == "device":
            device = content if self.device == "cpu" else self.device
            return self._constant(f"torch.device({device!r})", "device_")
        if tag in ("dtype", "layout", "memory_format"):
            return f"torch.{_identifier(content)}"
        raise TaskError(f"malformed argument in a graph: {arg}")


def _deaths(graph: Graph, steps: Sequence[Region | Node]) -> list[list[str]]:
    """Values that nobody reads after each step.

    Inputs stay the caller's; what is returned or written back lives on.
    """
    needed = {o.value for o in graph.outputs} | {i.name for i in graph.inputs}
    dead: list[list[str]] = []
    for step in reversed(steps):
        reads = step.inputs if isinstance(step, Region) else step.uses
        outputs = (
            step.outputs if isinstance(step, Region) else [v.name for v in step.outputs if v is not None]
        )
        names = [n for n in dict.fromkeys([*reads, *outputs]) if n not in needed]
        needed.update(names)
        dead.append(names)
    return dead[::-1]


def _local(name: str) -> str:
    return "v_" + _identifier(name)


def _identifier(name: str) -> str:
    if not name.isidentifier():
        raise TaskError(f"{name!r} in a graph is no identifier")
    return name


def _indent(lines: Sequence[str], depth: int) -> str:
    return "\n".join("    " * depth + line for line in lines)
