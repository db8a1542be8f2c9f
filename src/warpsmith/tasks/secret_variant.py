"""One more variant of a task, whose sizes nobody can read in its file.

In: a task host, a task and a random generator. Out: a `Variant` named "secret", or the reason why there is none. It changes the
numbers that one of the task's own variants changes, to values near that variant's, that occur nowhere in the file.
"""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from ..errors import TaskError
from ..records import Task, Variant
from .client import TaskHost
from .source import constants, parse
from .variants import op_difference

SECRET_SHAPE = "secret"  # name of the variant
TRIES = 4
SPREAD = 0.4  # by so much a size differs at most, as a share of it
SMALLEST = 2


def draw_secret_variant(
    host: TaskHost, task: Task, random: np.random.Generator
) -> tuple[Variant | None, str]:
    """The variant, or None and why: the task has no other shapes, or none of those drawn can be exported as the same task."""
    if task.source.kind == "memory" or len(task.variants) < 2:
        return None, "the task has no other shapes"
    tree = parse(task.source.text, task.source.path)
    main_values = {**constants(tree), **task.main.overrides}
    present = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    reason = "its variants change no sizes"
    for _ in range(TRIES):
        base = task.variants[1 + int(random.integers(len(task.variants) - 1))]
        changes = _draw_changes(main_values, base.overrides, present, random)
        if not changes:
            continue
        overrides = {**base.overrides, **changes}
        try:
            graph = host.export(overrides)
        except TaskError as error:
            reason = str(error)
            continue
        reason = op_difference(task.graph, graph)
        if not reason and graph.least_bytes <= max(task.graph.least_bytes, base.graph.least_bytes):
            return Variant(name=SECRET_SHAPE, overrides=overrides, graph=graph), ""
        reason = reason or "it would be larger than the main shape"
    return None, reason


def _draw_changes(
    main_values: dict[str, Any], overrides: dict[str, Any], present: set[Any], random: np.random.Generator
) -> dict[str, Any]:
    """Draw the numbers that the overrides change, alone or in tuples; what is equal stays equal."""
    drawn: dict[tuple[int, int], int] = {}

    def draw(before: Any, after: Any) -> Any:
        if (
            type(before) is not int
            or type(after) is not int
            or before == after
            or min(before, after) < SMALLEST
        ):
            return after
        if (before, after) not in drawn:
            low, high = max(SMALLEST, int(after * (1 - SPREAD))), int(after * (1 + SPREAD)) + 1
            choices = [
                n for n in range(low, min(high, max(before, after)) + 1) if n not in present and n % after
            ]
            drawn[before, after] = int(random.choice(choices)) if choices else after
        return drawn[before, after]

    changes = {}
    for name, after in overrides.items():
        before = main_values.get(name)
        if isinstance(after, tuple | list) and isinstance(before, tuple | list) and len(before) == len(after):
            value: Any = type(after)(draw(b, a) for b, a in zip(before, after, strict=True))
        else:
            value = draw(before, after)
        if value != after:
            changes[name] = value
    return changes
