"""Two answers of a model compared strictly: classes all the way down, and values of tensors within a tolerance.

A module that replaces another must return the same kind of object: a `CausalLMOutputWithPast` with the same fields, None
where the original has None, a cache of the same class with layers of the same class. `difference` names the first place
at which two values differ, or is empty.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

# Of the largest magnitude of the tensor: sums in another order differ by a few roundings of the largest terms.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size, type)


def difference(reference: Any, answer: Any, place: str = "output") -> str:
    """Where and how `answer` first differs from `reference`; empty when they agree."""
    return _Comparison().compare(reference, answer, place)


def shared_objects(kwargs: dict[str, Any], output: Any) -> dict[str, str]:
    """Fields of an output that are an argument itself (a cache that is filled and returned) → that argument."""
    fields = output.items() if isinstance(output, dict) else ()
    objects = {id(value): name for name, value in kwargs.items() if not isinstance(value, _PLAIN)}
    return {field: objects[id(value)] for field, value in fields if id(value) in objects}


class _Comparison:
    """Pairs under comparison are remembered, since objects may refer to each other."""

    def __init__(self) -> None:
        self.pairs: set[tuple[int, int]] = set()

    def compare(self, reference: Any, answer: Any, place: str) -> str:
        if type(reference) is not type(answer):
            return f"{place} is a {_class_name(answer)}, not a {_class_name(reference)}"
        if isinstance(reference, torch.Tensor):
            return _compare_tensors(reference, answer, place)
        if isinstance(reference, _PLAIN):
            same = reference == answer or (reference != reference and answer != answer)
            return "" if same else f"{place} is {answer!r}, not {reference!r}"
        if reference is answer or (id(reference), id(answer)) in self.pairs:
            return ""
        self.pairs.add((id(reference), id(answer)))
        return self._compare_parts(reference, answer, place)

    def _compare_parts(self, reference: Any, answer: Any, place: str) -> str:
        parts, others = _parts(reference), _parts(answer)
        if list(parts) != list(others):
            return f"{place} has {', '.join(map(str, others)) or 'nothing'}, not {', '.join(map(str, parts)) or 'nothing'}"
        for name, value in parts.items():
            text = self.compare(value, others[name], f"{place}{name}")
            if text:
                return text
        if (
            not parts
            and not isinstance(reference, dict | list | tuple)
            and not hasattr(reference, "__dict__")
        ):
            return "" if reference == answer else f"{place} is {answer!r}, not {reference!r}"
        return ""


def _parts(value: Any) -> dict[str, Any]:
    """What an object consists of, by how it is reached: items, entries, fields, attributes."""
    parts: dict[str, Any] = {}
    if isinstance(value, dict):
        parts |= {f"[{key!r}]": entry for key, entry in value.items()}
    elif isinstance(value, list | tuple):
        parts |= {f"[{index}]": entry for index, entry in enumerate(value)}
    if dataclasses.is_dataclass(value):  # the fields that are None are no entries of a ModelOutput
        parts |= {f".{field.name}": getattr(value, field.name) for field in dataclasses.fields(value)}
    else:
        parts |= {f".{name}": entry for name, entry in getattr(value, "__dict__", {}).items()}
    return parts


def _compare_tensors(reference: torch.Tensor, answer: torch.Tensor, place: str) -> str:
    for attribute in ("dtype", "shape", "device"):
        before, after = getattr(reference, attribute), getattr(answer, attribute)
        if before != after:
            return f"{place} has {attribute} {after}, not {before}"
    tolerance = TOLERANCES.get(reference.dtype, 0.0)
    finite = reference[torch.isfinite(reference)] if reference.is_floating_point() else reference[:0]
    largest = float(finite.abs().max()) if finite.numel() else 0.0
    try:
        torch.testing.assert_close(
            answer, reference, rtol=tolerance, atol=tolerance * largest, equal_nan=True, check_stride=False
        )
    except AssertionError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"{place}: {'; '.join(lines[:3])}"
    return ""


def _class_name(value: Any) -> str:
    return type(value).__qualname__
