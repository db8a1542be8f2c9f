"""The searches for both halves of a training step; the archive keeps what they win.

In: a module and its step. Out: a summary for each half. What a half only passes on (a weight that is saved, a view of one) is no work and not
part of its task: kernels are found in the whole half by their operations (`compiling.matching`).
"""

from __future__ import annotations

import copy
from typing import Any

import torch

from ..api import ModuleSearch
from ..budgets import share_budget
from ..compiling.steps import BACKWARD, FORWARD
from ..errors import TaskError
from ..processes.buffers import Scratch
from ..progress import Observer
from ..records import RunSummary
from ..tasks.memory import task_from_module
from .step import HalfStep, TrainingStep

SHARES = {FORWARD: 1 / 3, BACKWARD: 2 / 3}  # of the budget: backward has twice the products


def search_halves(search: ModuleSearch, step: TrainingStep, shown: Observer) -> dict[str, RunSummary]:
    """Search for kernels of each half. Raises TaskError where one of them is no task: it draws random numbers, say."""
    shown.stage("running one step for its two graphs")
    halves = step.capture(search.original)
    name, folder = type(search.original).__name__, search.config.cache / "exports"
    tasks = {}
    for direction in SHARES:
        half = drop_passed_on(halves[direction])
        tasks[direction] = task_from_module(half.module, half.inputs, {}, folder, f"{name}_{direction}")
    summaries = {}
    for direction, share in SHARES.items():
        limits, title = share_budget(search.limits, share), f"{name}, {direction}"
        with Scratch() as scratch:
            summaries[direction] = search.search(tasks[direction], limits, shown, scratch, title).summary
    return summaries


def drop_passed_on(half: HalfStep) -> HalfStep:
    """Return the half without results that are inputs, views of inputs, twice there, or None. Raises TaskError where none is left."""
    if not all(isinstance(value, torch.Tensor) for value in half.inputs):
        raise TaskError("a size or a number goes from forward to backward, which a fixed graph cannot hold")
    module = copy.deepcopy(half.module)
    output = next(node for node in module.graph.nodes if node.op == "output")
    results = [n for n in dict.fromkeys(output.args[0]) if n is not None and not _passes_on(n)]
    if not results:
        raise TaskError("it computes nothing")
    output.args = (tuple(results),)
    module.graph.eliminate_dead_code()
    module.recompile()
    return HalfStep(module, half.inputs)


def _passes_on(node: Any) -> bool:
    """Return whether a node is an input, or a view of one."""
    while node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
        returned = node.target._schema.returns
        alias = returned[0].alias_info if len(returned) == 1 else None
        if alias is None or alias.is_write:
            return False
        node = node.args[0]
    return bool(node.op == "placeholder")
