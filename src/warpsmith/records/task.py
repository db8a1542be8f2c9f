"""A task: a PyTorch reference at one main shape and some variants of it, each a graph."""

from __future__ import annotations

from typing import Any, Literal

from .graph import Graph
from .record import Record


class TaskSource(Record):
    """The origin of a task's Python. `text` is the whole file, so that a task can be rebuilt from its record alone."""

    kind: Literal[
        "kernelbench", "module", "memory"
    ]  # a file with Model/get_inputs, package.module:Class, in-memory
    path: str  # as the user gave it
    text: str = ""  # kernelbench: the file's text
    entry: str = "Model"  # class name
    export_file: str = ""  # memory: file of the exported program, written by this machine's own process


class Variant(Record):
    """The task at one set of shapes. `overrides` replace module-level constants of the task's file."""

    name: str  # "main", "ragged", …
    overrides: dict[str, Any]
    graph: Graph


class Task(Record):
    name: str
    source: TaskSource
    variants: tuple[Variant, ...]  # the first is the main one; all have the same ops in the same order
    suite: str = ""
    note: str = ""  # e.g. "variants skipped: …"

    @property
    def main(self) -> Variant:
        return self.variants[0]

    @property
    def graph(self) -> Graph:
        return self.main.graph

    def variant(self, name: str) -> Variant:
        return next(v for v in self.variants if v.name == name)
