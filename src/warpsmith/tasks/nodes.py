"""One call of an exported graph as a `records.Node`, or a refusal that names the op and the user's line.

In: a torch.fx node with its fake result. Out: op, arguments as tagged JSON, specs of the tensors made,
FLOPs, where. Refused: random ops, results whose size or value depends on data, other devices, ops outside
ATen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node as FxNode
from torch.utils import _pytree as pytree

from ..errors import TaskError
from ..records import ITEM_BYTES, Node, TensorSpec, Value
from .flops import node_flops

# Tagged as random because of a dropout argument, which is checked by its value: (position, name).
FIXED_GRAPH = (
    "which a fixed graph cannot hold; keep the value a tensor (torch.where for a branch), or optimize the parts before and "
    "after it apart"
)
_DROPOUT_ARGUMENT = {
    "aten.scaled_dot_product_attention.default": (4, "dropout_p"), "aten.lstm.input": (5, "dropout"),
    "aten.gru.input": (5, "dropout"), "aten.rnn_tanh.input": (5, "dropout"),
    "aten.rnn_relu.input": (5, "dropout"),
    "aten._scaled_dot_product_flash_attention_for_cpu.default": (3, "dropout_p"),
}  # fmt: skip
_FRAME = re.compile(r'File "([^"]*)", line (\d+), in (\S+)')

_TAGGED: tuple[tuple[type, str], ...] = (
    (torch.dtype, "dtype"), (torch.layout, "layout"), (torch.memory_format, "memory_format"),
)  # fmt: skip


def tensor_spec(tensor: torch.Tensor) -> TensorSpec:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in ITEM_BYTES:
        raise TaskError(f"tensors of type {dtype} are not supported; supported: {', '.join(ITEM_BYTES)}")
    if tensor.layout != torch.strided:
        raise TaskError(f"tensors of layout {tensor.layout} are not supported, only strided ones")
    return TensorSpec(shape=tuple(tensor.shape), dtype=dtype, stride=tuple(tensor.stride()))


def user_line(node: FxNode, filename: str) -> str:
    """The innermost frame in the user's file, else the innermost outside torch: "file.py:12 in forward"."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    own_frames = [f for f in frames if f[0] == filename] or [f for f in frames if "/torch/" not in f[0]]
    if not own_frames:
        return ""
    path, line, function = own_frames[-1]
    return f"{path.rsplit('/', 1)[-1]}:{line} in {function}"


def module_path(node: FxNode) -> str:
    """The submodule whose forward makes the call."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]).partition("@")[0] if stack else ""


class NodeConverter:
    """`alias` maps names to the values they stand for, `items` the results of ops that return tuples to their
    names.
    """

    def __init__(
        self,
        filename: str,
        alias: Mapping[str, str],
        items: Mapping[str, Mapping[int, str]],
        device: str = "cpu",
    ) -> None:
        """`device`: where the exported module is, "cpu" or "cuda"; the graph is the same on either."""
        self.filename, self.alias, self.items, self.device = filename, alias, items, device

    def convert(self, node: FxNode) -> Node | None:
        op, where = op_name(node), user_line(node, self.filename)
        if op.startswith(("aten._assert", "aten.sym_constrain")):
            return None
        at = f" ({where})" if where else ""
        if not op.startswith("aten."):
            raise TaskError(f"the op {op} is outside ATen and cannot be used in a task{at}")
        self._refuse_random(node, op, at)
        outputs = self._outputs(node, op, at)
        args = tuple(self._argument(a, at) for a in node.args)
        kwargs = {k: self._argument(v, at) for k, v in node.kwargs.items()}
        transposed = op.startswith("aten.convolution.") and bool(node.args[6])
        flops = node_flops(op, self._reads(node), [v.spec for v in outputs if v is not None], transposed)
        return Node(
            name=node.name, op=op, args=args, kwargs=kwargs, outputs=outputs, where=where, flops=flops,
            module=module_path(node),
        )  # fmt: skip

    @staticmethod
    def _reads(node: FxNode) -> list[TensorSpec]:
        leaves = pytree.tree_leaves((node.args, node.kwargs))
        return [
            tensor_spec(a.meta["val"])
            for a in leaves
            if isinstance(a, FxNode) and isinstance(a.meta.get("val"), torch.Tensor)
        ]

    @staticmethod
    def _refuse_random(node: FxNode, op: str, at: str) -> None:
        if op in _DROPOUT_ARGUMENT:
            position, name = _DROPOUT_ARGUMENT[op]
            probability = node.kwargs.get(name, node.args[position] if len(node.args) > position else 0.0)
            training = node.args[6] if len(node.args) > 6 else True
            if not probability or not training:
                return
        elif torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
            return
        raise TaskError(
            f"the random op {op} cannot be verified{at}; call .eval(), or make the tensor an input"
        )

    def _outputs(self, node: FxNode, op: str, at: str) -> tuple[Value | None, ...]:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            return (self._make_value(node.name, value, op, at),)
        if isinstance(value, list | tuple) and all(v is None or isinstance(v, torch.Tensor) for v in value):
            names = self.items.get(node.name, {})
            return tuple(
                self._make_value(names[i], v, op, at) if i in names and v is not None else None
                for i, v in enumerate(value)
            )
        raise TaskError(f"the op {op} makes a Python number from data, {FIXED_GRAPH}{at}")

    def _make_value(self, name: str, tensor: torch.Tensor, op: str, at: str) -> Value:
        if any(not isinstance(n, int) for n in tensor.shape):
            raise TaskError(
                f"the size of {op}'s result depends on data, which is not supported; use torch.where or a mask{at}"
            )
        if tensor.device.type not in ("cpu", self.device):
            raise TaskError(
                f"{op} makes a tensor on {tensor.device}; the task is on the {self.device.upper()}: name no device{at}"
            )
        return Value(name=name, spec=tensor_spec(tensor))

    def _argument(self, arg: Any, at: str) -> Any:
        if isinstance(arg, FxNode):
            return {"v": self.alias.get(arg.name, arg.name)}
        if isinstance(arg, list | tuple):
            return [self._argument(a, at) for a in arg]
        if isinstance(arg, float) and not math.isfinite(arg):
            return {"f": "nan" if math.isnan(arg) else "inf" if arg > 0 else "-inf"}
        if arg is None or isinstance(arg, bool | int | float | str):
            return arg
        if isinstance(arg, torch.device):
            return {"device": "cpu"}  # whoever runs the graph puts its own device here
        for kind, tag in _TAGGED:
            if isinstance(arg, kind):
                return {tag: str(arg).removeprefix("torch.")}
        raise TaskError(f"an op has an argument of type {type(arg).__name__}, which is not supported{at}")


def op_name(node: FxNode) -> str:
    """ "aten.add.Tensor", or the bare function's name for what is no ATen op."""
    target = node.target
    return (
        str(target) if isinstance(target, torch._ops.OpOverload) else getattr(target, "__name__", str(target))
    )


def is_idle_clone(node: FxNode, literals: set[str]) -> bool:
    """A copy, in the same layout, that nothing in a functional graph can tell from its source.

    Sources are fresh intermediates, literals, and views of which no view of the copy is taken.
    """
    source = node.args[0] if node.args else None
    if op_name(node) != "aten.clone.default" or not isinstance(source, FxNode):
        return False
    if source.op != "call_function" and source.name not in literals:
        return False
    if any(user.op == "output" for user in node.users):
        return False
    if _is_view(source) and any(_is_view(user) for user in node.users):
        return False
    return tensor_spec(node.meta["val"]) == tensor_spec(source.meta["val"])


def _is_view(node: FxNode) -> bool:
    """Return whether the result may share memory with an argument; an item of a tuple counts as one."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return node.op == "call_function"
    return any(r.alias_info is not None for r in node.target._schema.returns)
