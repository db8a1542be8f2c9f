"""What schedules share: a frozen dataclass whose fields are the tunables of a unit.

In: values of a unit's tunables, or what a search over tiles chose. Out: the schedule, and the tunables of a technique.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from ..records import Tunable
from .family import tunable


def tunes(name: str, default: int | None) -> Any:
    """A field that is the tunable of this name. None: the schedule has no such tunable."""
    return field(default=default, metadata={"tunable": name})


@dataclass(frozen=True)
class Schedule:
    @classmethod
    def names(cls) -> dict[str, str]:
        """Names of tunables by their fields, in the order in which units list them."""
        return {f.name: f.metadata["tunable"] for f in fields(cls) if "tunable" in f.metadata}

    @classmethod
    def from_values(cls, values: Mapping[str, int]) -> Self:
        """The schedule that a unit with these values has."""
        return cls(**{field: values[name] for field, name in cls.names().items() if name in values})

    def values(self) -> dict[str, int]:
        named = {name: getattr(self, field) for field, name in self.names().items()}
        return {name: value for name, value in named.items() if value is not None}

    def tunables(self, **others: Sequence[int]) -> tuple[Tunable, ...]:
        """One for each field, the schedule's own value first; `others`: further values worth a try, by field."""
        named = ((name, getattr(self, field), others.get(field, ())) for field, name in self.names().items())
        return tuple(tunable(name, value, *further) for name, value, further in named if value is not None)
