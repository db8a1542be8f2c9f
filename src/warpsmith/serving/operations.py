"""The calls of an author as HTTP sees them: one operation a method of the protocol, arguments and answers validated on both sides.

In: the protocol's own signatures. Out: a record of arguments and an adapter of the answer for each. Nothing is written twice.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cache
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model

from ..authoring.author import Author

PREFIX = "/v1/"
NAMES = (
    "about", "tasks", "open_task", "add_task", "read_task", "region", "header", "machine_page", "observe", "history", "board", "knowledge", "verdict", "source",
    "submit", "job", "jobs", "cancel",
)  # fmt: skip


@dataclass(frozen=True)
class Operation:
    name: str
    arguments: type[BaseModel]
    answer: TypeAdapter[Any]


@cache
def find_operation(name: str) -> Operation | None:
    """Return the operation of that name; None: there is none."""
    if name not in NAMES:
        return None
    method = getattr(Author, name)
    hints = get_type_hints(method)
    fields: dict[str, Any] = {
        p.name: (hints[p.name], ... if p.default is inspect.Parameter.empty else p.default)
        for p in inspect.signature(method).parameters.values()
        if p.name != "self"
    }
    model = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
    return Operation(name, model, TypeAdapter(hints["return"]))
