"""The base of every record: frozen, strict about unknown fields, identified by the hash of every field."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

from pydantic import BaseModel, ConfigDict


def content_hash(data: Any) -> str:
    """Hash into sixteen hex digits of SHA-256 over the canonical JSON of `data` (keys sorted, no blanks)."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Record(BaseModel):
    """A value that crosses a stage, a process or a disk. Validated on the way in, never changed after."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    @cached_property
    def id(self) -> str:
        """Hash of every field: two records with one differing field never share an id."""
        return content_hash(json.loads(self.model_dump_json()))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy with some fields changed, not validated. Properties computed from the old fields (`id`) are
        forgotten.
        """
        copy = super().model_copy(update=update, deep=deep)
        for name in set(copy.__dict__) - set(type(self).model_fields):
            del copy.__dict__[name]
        return copy
