"""The kind of a module: modules of one kind are equal layers, as far as their classes, settings and weights' shapes tell.

Numbers by which a layer knows its place (`layer_idx`) do not count: whether kernels of one layer answer for another is decided by
the exported graphs (see `composition.compose`), this here only says which are worth asking.
"""

from __future__ import annotations

import re
from typing import Any

import torch

from ..records import content_hash
from ..tasks.module_state import list_attributes

_PLACE = re.compile(r"(idx|index|_id|number)$")
_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.Size)


def describe_kind(module: torch.nn.Module) -> str:
    """Return a key that equal layers share."""
    return content_hash([[path, *_describe_part(part)] for path, part in module.named_modules()])


def _describe_part(part: torch.nn.Module) -> list[Any]:
    tensors = [*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)]
    specs = [[name, str(t.dtype), list(t.shape), list(t.stride())] for name, t in tensors]
    values = [
        (n, v)
        for n, v in sorted(list_attributes(part).items(), key=lambda item: item[0])
        if not _PLACE.search(n)
    ]
    settings = [[name, _describe_value(value)] for name, value in values]
    return [f"{type(part).__module__}.{type(part).__qualname__}", part.training, specs, settings]


def _describe_value(value: Any) -> str:
    """Write a setting as text: what is no plain value by its class, and by itself where it is one that layers share."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(map(_describe_value, value))})"
    return getattr(value, "__qualname__", type(value).__qualname__)
