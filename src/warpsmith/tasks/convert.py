"""An exported program as a `records.Graph`: plain data, functional, every input and every output with its
role.

In: an `ExportedProgram` whose ops are decomposed. Out: the graph, dead nodes and unused parameters left
out, `getitem` folded into its producer, no-op aliases dropped. Refused, with the op and the user's line:
random ops, sizes or branches that depend on data, and ops outside ATen.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, OutputKind, OutputSpec
from torch.fx import Node as FxNode

from ..errors import TaskError
from ..records import Graph, GraphInput, GraphOutput, Node
from .nodes import NodeConverter, is_idle_clone, op_name, tensor_spec

_ROLES: dict[InputKind, Any] = {
    InputKind.PARAMETER: "param", InputKind.BUFFER: "buffer", InputKind.CONSTANT_TENSOR: "constant",
    InputKind.USER_INPUT: "input",
}  # fmt: skip
_OUTPUT_ROLES: dict[OutputKind, Any] = {
    OutputKind.USER_OUTPUT: "output", OutputKind.BUFFER_MUTATION: "buffer_update",
    OutputKind.USER_INPUT_MUTATION: "input_update",
}  # fmt: skip

_IDENTITIES = frozenset({"aten.alias.default", "aten.detach.default", "aten.lift_fresh_copy.default"})


def to_graph(program: ExportedProgram, filename: str, call: Any, tree: Any) -> Graph:
    """`filename` is the task's file as its code objects know it, to name lines; `call`, `tree`: how the flat tensors nest.

    Raises TaskError.
    """
    return _Converter(program, filename).graph(json.dumps(call), json.dumps(tree))


class _Converter:
    def __init__(self, program: ExportedProgram, filename: str) -> None:
        self.program, self.filename = program, filename
        self.alias: dict[str, str] = {}  # value name → the name it stands for
        self.items: dict[str, dict[int, str]] = {}  # node name → index → value name
        specs = program.graph_signature.input_specs
        literals = {s.arg.name for s in specs if s.kind == InputKind.CONSTANT_TENSOR}
        for node in program.graph.nodes:
            if node.op != "call_function":
                continue
            if op_name(node) in _IDENTITIES or is_idle_clone(node, literals):
                self.alias[node.name] = self._value(node.args[0].name)
            elif op_name(node) == "getitem":
                self.items.setdefault(node.args[0].name, {})[node.args[1]] = node.name

    def graph(self, call: str, tree: str) -> Graph:
        converter = NodeConverter(self.filename, self.alias, self.items, self._device())
        outputs = tuple(
            o for spec in self.program.graph_signature.output_specs if (o := self._output(spec)) is not None
        )
        nodes = self._live([n for n in map(converter.convert, self._calls()) if n is not None], outputs)
        used = {name for node in nodes for name in node.uses} | {o.value for o in outputs}
        inputs = tuple(i for i in self._inputs() if i.role == "input" or i.name in used)
        graph = Graph(inputs=inputs, nodes=tuple(nodes), outputs=outputs, tree=tree, call=call)
        _refuse_outputs(graph)
        return graph

    def _device(self) -> str:
        """Return the device of the module: "cuda" if any of its tensors is there."""
        values = (n.meta.get("val") for n in self.program.graph.nodes if n.op == "placeholder")
        kinds = {v.device.type for v in values if isinstance(v, torch.Tensor)}
        return "cuda" if "cuda" in kinds else "cpu"

    def _calls(self) -> Iterable[FxNode]:
        for node in self.program.graph.nodes:
            if node.op == "call_function":
                if node.name not in self.alias and op_name(node) != "getitem":
                    yield node
            elif node.op not in ("placeholder", "output"):
                raise TaskError(f"the exported graph holds a {node.op} node, which is not supported")

    def _value(self, name: str) -> str:
        return self.alias.get(name, name)

    def _inputs(self) -> Iterable[GraphInput]:
        placeholders = {n.name: n for n in self.program.graph.nodes if n.op == "placeholder"}
        for spec in self.program.graph_signature.input_specs:
            if isinstance(spec.arg, ConstantArgument):
                continue  # a Python scalar or None: specialised
            if spec.kind not in _ROLES:
                raise TaskError(f"the module takes an input of kind {spec.kind.name}, which is not supported")
            name = spec.arg.name
            value = placeholders[name].meta.get("val")
            if not isinstance(value, torch.Tensor):
                raise TaskError(
                    f"the input {name} is a {type(value).__name__}; use tensors and Python constants"
                )
            spec_of, role = tensor_spec(value), _ROLES[spec.kind]
            data = self._literal(spec.target or "") if role == "constant" else ""
            yield GraphInput(name=name, spec=spec_of, role=role, target=_target(spec), data=data)

    def _literal(self, target: str) -> str:
        """The elements of a tensor that the code of forward spells out.

        Empty for an attribute of the module.
        """
        value = self.program.constants.get(target)
        if not target.rpartition(".")[2].startswith("lifted_tensor") or type(value) is not torch.Tensor:
            return ""
        if not value.numel():  # one element that nobody reads: no data means no literal
            value = torch.zeros(1, dtype=value.dtype)
        raw = value.detach().contiguous().reshape(-1).view(torch.uint8)
        return base64.b64encode(bytes(raw.tolist())).decode()

    def _output(self, spec: OutputSpec) -> GraphOutput | None:
        if spec.kind not in _OUTPUT_ROLES:
            if spec.kind == OutputKind.TOKEN:
                return None
            raise TaskError(f"the module has an output of kind {spec.kind.name}, which is not supported")
        role = _OUTPUT_ROLES[spec.kind]
        if isinstance(spec.arg, ConstantArgument):
            literal = spec.arg.value
            if literal is not None and not isinstance(literal, bool | int | float | str):
                raise TaskError(
                    f"the module returns a {type(literal).__name__}; use tensors and plain values"
                )
            return GraphOutput(value=None, literal=literal, role=role)
        if not hasattr(spec.arg, "name") or type(spec.arg).__name__ != "TensorArgument":
            raise TaskError("the module returns a size that depends on data, which is not supported")
        return GraphOutput(value=self._value(spec.arg.name), role=role, target=spec.target or "")

    @staticmethod
    def _live(nodes: list[Node], outputs: tuple[GraphOutput, ...]) -> list[Node]:
        live, live_nodes = {o.value for o in outputs}, []
        for node in reversed(nodes):
            if any(v is not None and v.name in live for v in node.outputs):
                outs = tuple(v if v is not None and v.name in live else None for v in node.outputs)
                live_nodes.append(node.model_copy(update={"outputs": outs}))
                live.update(node.uses)
        return live_nodes[::-1]


def _refuse_outputs(graph: Graph) -> None:
    """Without a tensor there is nothing to compare, and the float64 oracle has no complex numbers."""
    outputs = [o for o in graph.outputs if o.value is not None]
    if all(o.role != "output" for o in outputs):
        raise TaskError("the module returns no tensor, so there is nothing to compute or to compare")
    types = [graph.specs[o.value].dtype for o in outputs if o.value is not None]
    complex_type = next((name for name in types if name.startswith("complex")), "")
    if complex_type:
        raise TaskError(
            f"the module returns a {complex_type} tensor, which cannot be judged; use torch.view_as_real"
        )


def _target(spec: InputSpec) -> str:
    return spec.target or str(getattr(spec.arg, "name", ""))
