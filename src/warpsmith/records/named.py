"""Records with names that may be earlier ones: read by today's names, kept and hashed as they were written.

An id is the hash of what a record was written as, and other stored things refer to it. So a record that was read shows today's name,
and remembers the one that it was written with: that is what it is dumped as, and what its id is made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import PrivateAttr, SerializerFunctionWrapHandler, model_serializer, model_validator

from .record import Record


class NamedRecord(Record):
    _written: dict[str, str] = PrivateAttr(default_factory=dict)  # fields that hold another name now

    def translate_names(self) -> dict[str, str]:
        """Return today's names, by the fields that hold them."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _take_current_names(self) -> Self:
        for field, name in self.translate_names().items():
            before = getattr(self, field)
            if before != name:
                self._written[field] = before
                self.__dict__[field] = name  # as validators may, though the record is frozen
        return self

    @model_serializer(mode="wrap")
    def _dump_as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        return fields | {field: name for field, name in self._written.items() if field in fields}

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A field that is changed is written as it is now."""
        copy = super().model_copy(update=update, deep=deep)
        copy._written = {field: name for field, name in self._written.items() if field not in (update or {})}
        return copy
