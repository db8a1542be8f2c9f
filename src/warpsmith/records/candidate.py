"""Regions, units and candidates: a task's graph with some regions replaced by generated code."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from .graph import Graph
from .named import NamedRecord
from .record import Record, content_hash
from .technique_names import current_branch, current_technique, current_values

Value = int | float | str
EXPERT = "expert"  # the model of what the built-in rules wrote


class Region(Record):
    """A connected, convex set of graph nodes. Inputs and outputs are value names, in ABI order."""

    nodes: tuple[str, ...]  # node names, in graph order
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    signature: str  # ops, dtypes, layout, rank, shape class: the key for transfer seeds from other tasks

    @property
    def title(self) -> str:
        """Its first nodes, for people."""
        further_count = len(self.nodes) - 3
        return ", ".join(self.nodes[:3]) + (f" and {further_count} more" if further_count > 0 else "")


class Tunable(Record):
    """A compile-time constant of a unit, passed as -DNAME=value."""

    name: str  # a C macro name
    domain: tuple[int, ...]
    value: int


class Unit(NamedRecord):
    """One kernel source that covers one region. The source does not name shapes: they come from task.h.

    A unit in "aten" has no source: it is its rewrite, run as the rest of the graph is.
    """

    region: Region
    language: Literal["c++", "cuda", "aten"]
    source: str
    tunables: tuple[Tunable, ...] = ()
    flags: tuple[str, ...] = ()  # extra compiler flags, from the target's allow-list
    requires: tuple[str, ...] = ()  # e.g. "in0_shape[1] % 4 == 0"; empty: general
    family: str = ""  # expert family or "llm"
    technique: str = ""
    atomics: bool = False  # declared nondeterministic order of additions
    rewrite: Graph | None = (
        None  # the operations in ATen of an algebraic technique, or of a unit without code
    )

    def translate_names(self) -> dict[str, str]:
        return {"technique": current_technique(self.family, self.technique)}

    @model_serializer(mode="wrap")
    def _dump_as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out an absent rewrite: ids in archives that were written before there were rewrites stay valid."""
        fields: dict[str, Any] = handler(self)
        fields |= {field: name for field, name in self._written.items() if field in fields}
        if self.rewrite is None:
            fields.pop("rewrite", None)
        return fields

    @model_validator(mode="after")
    def _aten_is_its_rewrite(self) -> Unit:
        code = self.source or self.tunables or self.flags or self.requires or self.atomics
        if self.language == "aten" and (self.rewrite is None or code):
            raise ValueError("a unit in aten has a rewrite, and no source, tunables, flags or requirements")
        return self

    @property
    def compiled(self) -> bool:
        """True when a target builds it."""
        return self.language != "aten"

    @property
    def text(self) -> str:
        """The text for readers: the source, or the operations in ATen, one a line."""
        if self.compiled or self.rewrite is None:
            return self.source
        return "".join(f"{node.listing}\n" for node in self.rewrite.nodes)

    @property
    def values(self) -> dict[str, int]:
        return {t.name: t.value for t in self.tunables}

    @property
    def current_values(self) -> dict[str, int]:
        """Its values by the names that the technique's tunables have today."""
        return current_values(self.family, self.technique, self.values)

    @cached_property
    def code_key(self) -> str:
        """Hash of everything that decides the binary and its judging: two units with one key share build and verdict."""
        declared: list[Any] = [self.requires, self.atomics] if self.requires or self.atomics else []
        declared += [self.rewrite.id] if self.rewrite is not None else []
        declared += [] if self.compiled else [self.language]
        return content_hash([self.source, self.values, self.flags, self.region.id, *declared])


class Lineage(NamedRecord):
    parents: tuple[str, ...] = ()  # candidate ids
    operator: Literal[
        "seed", "rewrite", "edit", "tune", "crossover", "transplant", "simplify", "restart", "repair", "given"
    ] = "seed"
    agent: str = ""
    model: str = EXPERT
    hypothesis: str = ""  # Hypothesis id
    reason: str = ""  # one line, for people
    round: int = 0
    branch: str = ""  # the lineage it belongs to
    cost_usd: float = 0.0
    authors: tuple[str, ...] = ()  # of all that it is made of, where that is more than its `model`

    def translate_names(self) -> dict[str, str]:
        return {"branch": current_branch(self.branch)}

    @model_serializer(mode="wrap")
    def _dump_as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out `authors` where there is one: ids in archives that were written before it stay valid."""
        fields: dict[str, Any] = handler(self)
        fields |= {field: name for field, name in self._written.items() if field in fields}
        if not self.authors:
            fields.pop("authors", None)
        return fields

    @property
    def credit(self) -> tuple[str, ...]:
        """Everyone who wrote a part of it, the first author first."""
        return self.authors or (self.model,)

    @property
    def author(self) -> str:
        """The first of them who is not the built-in expert; the expert where it wrote all."""
        return next((name for name in self.credit if name != EXPERT), EXPERT)

    def share_credit(self, parents: Iterable[Lineage]) -> Lineage:
        """Copy it with the authors of its parents before its own."""
        names = tuple(dict.fromkeys([name for parent in parents for name in parent.credit] + [*self.credit]))
        return self.model_copy(update={"authors": names}) if names != self.credit else self


class Candidate(Record):
    task_id: str
    target: str
    units: tuple[Unit, ...]  # disjoint regions, in graph order; the remaining nodes run as ATen
    lineage: Lineage = Lineage()

    @property
    def compiled(self) -> tuple[Unit, ...]:
        """The units that a target builds; the others become part of the graph (`runtime.rewrites`)."""
        return tuple(u for u in self.units if u.compiled)

    @cached_property
    def content_key(self) -> str:
        """Hash of the judged content without its author: duplicates share it and are never judged twice."""
        return content_hash([self.task_id, self.target, [u.code_key for u in self.units]])


class Hypothesis(NamedRecord):
    """A change that the reasoning agent expects to help, and its evidence."""

    region: Region
    family: str
    technique: str
    bottleneck: Literal["memory", "compute", "overhead", "latency", "unknown"]
    expected_gain: float  # factor on the whole task, 1.0 = none
    evidence: tuple[str, ...]  # measured facts, one line each
    values: dict[str, int] = {}  # tunables to start from
    parent: str = ""  # candidate id it starts from

    def translate_names(self) -> dict[str, str]:
        return {"technique": current_technique(self.family, self.technique)}

    @property
    def current_values(self) -> dict[str, int]:
        """Its values by the names that the technique's tunables have today."""
        return current_values(self.family, self.technique, self.values)
