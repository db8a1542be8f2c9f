"""The form of one call of a module: its arguments as text, the modes it ran in, and why it cannot be a task, where it cannot."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..errors import TaskError
from ..records import ITEM_BYTES, content_hash
from ..tasks.flattened import CallShape
from ..tasks.functions import find_called_function
from ..tasks.structure import NotRebuildable, Parts, take_apart

_NEEDS_GRADIENTS = "needs gradients: run it under torch.no_grad()"


@dataclass(frozen=True)
class CallForm:
    """All that calls of one kind have in common; `key` tells kinds apart."""

    inputs: tuple[str, ...]
    training: bool
    gradients: bool  # whether the call records them
    autocast: str  # dtype; empty: off
    key: str
    trouble: str = ""  # why it cannot be a task
    on_gpu: bool = False
    holder: str = ""  # the class of an instance among the arguments, such as a cache
    nesting: str = ""  # a key of how the arguments nest, whatever their shapes

    def refuse(self, trouble: str) -> CallForm:
        """Return the form of a call that is no task. All of these are one kind for each reason, whatever their shapes: caches grow with
        every call.
        """
        key = content_hash([[trouble], self.training, self.gradients, self.autocast])
        return replace(self, trouble=trouble, key=key)


def describe_call(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[CallForm, list[Any]]:
    """Describe a call; return its form, and the instances that it is given. A class that cannot be taken apart is told in `trouble`."""
    try:
        shape = CallShape.of(find_called_function(module), args, kwargs)
        tree, parts, trouble = json.dumps(shape.tree), shape.parts, ""
    except (TaskError, AttributeError) as error:
        kinds = [type(v).__name__ for v in (*args, *kwargs.values())]
        tree, parts, trouble = json.dumps(kinds), Parts(), str(error)
    leaves = parts.leaves
    holder = _name_first(parts.names) if parts.names else ""
    if not leaves and not trouble:
        trouble = f"it is given a {holder} without a tensor" if holder else "it is given no tensor"
    gradients = torch.is_grad_enabled() and any(t.requires_grad for t in (*leaves, *module.parameters()))
    autocast = _find_autocast(leaves)
    trouble = trouble or (_NEEDS_GRADIENTS if gradients else "")
    trouble = trouble or ("it runs under autocast: cast the model instead" if autocast else "")
    trouble = trouble or _find_unsupported(leaves)
    on_gpu = any(t.is_cuda for t in (*leaves, *module.parameters()))
    specs = [(str(t.dtype), list(t.shape), _strides(t), str(t.device)) for t in leaves]
    key = content_hash([tree, specs, module.training, gradients, autocast])
    inputs = tuple(map(describe_tensor, leaves))
    form = CallForm(inputs, module.training, gradients, autocast, key, "", on_gpu, holder, content_hash(tree))
    return form.refuse(trouble) if trouble else form, parts.objects if holder else []


def describe_result(result: Any) -> tuple[tuple[str, ...], int, str]:
    """Return the tensors of a result as text, their bytes, and why it cannot be a task's result, where it cannot."""
    try:
        leaves = take_apart(result)[1].leaves
    except NotRebuildable as error:
        return (), 0, f"it returns {error}"
    if not leaves:
        return (), 0, "it returns no tensor"
    return tuple(map(describe_tensor, leaves)), sum(t.nbytes for t in leaves), _find_unsupported(leaves)


def copy_example(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Copy the arguments of a call, strides included: the call may change them. Raises TaskError."""
    shape = CallShape.of(find_called_function(module), args, kwargs)
    with torch.inference_mode(False), torch.no_grad():
        leaves = [_copy_tensor(t) for t in shape.parts.leaves]
    new_args, new_kwargs, _ = shape.arguments(leaves)
    return new_args, new_kwargs


def describe_tensor(tensor: torch.Tensor) -> str:
    """Write a tensor as "float32[8,128]", with its strides where it is not contiguous."""
    text = f"{str(tensor.dtype).removeprefix('torch.')}[{','.join(map(str, tensor.shape))}]"
    if tensor.layout is torch.strided and not tensor.is_contiguous():
        text += f" strides {','.join(map(str, tensor.stride()))}"
    return text


def _copy_tensor(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.numel() == 0:
        return tensor.detach().clone()
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    flat = tensor.detach().as_strided((extent,), (1,)).clone()
    return flat.as_strided(tensor.shape, tensor.stride())


def _strides(tensor: torch.Tensor) -> list[int]:
    return list(tensor.stride()) if tensor.layout is torch.strided else []


def _find_autocast(leaves: list[torch.Tensor]) -> str:
    devices = {t.device.type for t in leaves} & {"cpu", "cuda"} or {"cpu"}
    active = [d for d in sorted(devices) if torch.is_autocast_enabled(d)]
    return str(torch.get_autocast_dtype(active[0])).removeprefix("torch.") if active else ""


def _find_unsupported(leaves: list[torch.Tensor]) -> str:
    for tensor in leaves:
        name = str(tensor.dtype).removeprefix("torch.")
        if tensor.layout is not torch.strided or name not in ITEM_BYTES:
            return f"it holds a tensor of {name}, {tensor.layout}: only plain tensors make a task"
    return ""


def _name_first(names: Mapping[str, Any]) -> str:
    return re.split("[.:]", next(iter(names)))[-1]


__all__ = ["CallForm", "copy_example", "describe_call", "describe_result", "describe_tensor"]
