"""Constructor arguments as JSON, so that one process can evaluate `get_init_inputs()` and another use it.

In: numbers, text, None, torch dtypes, and tuples, lists and dicts of those. Out: JSON with the tagged forms
`{"tuple": […]}`, `{"dict": [[key, value], …]}`, `{"f": "inf" | "-inf" | "nan"}` and `{"dtype": "float32"}`,
and back. Tensors do not cross: the process that receives them would learn more than how to build a module.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ..errors import TaskError


def encode(value: Any) -> Any:
    """Raises TaskError for what has no JSON form."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"f": str(value)}
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, list):
        return [encode(v) for v in value]
    if isinstance(value, tuple):  # torch.Size, too
        return {"tuple": [encode(v) for v in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(k), encode(v)] for k, v in value.items()]}
    raise TaskError(
        f"get_init_inputs() holds a {type(value).__name__}: "
        "only numbers, text, None, dtypes and lists of them can be handed to a solution"
    )


def decode(value: Any) -> Any:
    """The value that `encode` was given."""
    if isinstance(value, list):
        return [decode(v) for v in value]
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "f":
        return float(inner)
    if kind == "dtype":
        return getattr(torch, inner)
    if kind == "tuple":
        return tuple(decode(v) for v in inner)
    return {decode(k): decode(v) for k, v in inner}
