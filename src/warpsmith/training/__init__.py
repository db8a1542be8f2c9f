"""Kernels for training: a step of a module, forward and backward, searched half by half, checked and measured as a whole.

A step is cut in two graphs as `torch.compile` does it (`compiling.steps`); each is a task like any other. The searches are the API's.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..api import ModuleSearch, call_arguments, make_target, target_of
from ..archive.store import Archive
from ..budgets import BudgetLike, parse_budget
from ..config import Config
from ..progress import Observer
from ..watching import watching

if TYPE_CHECKING:
    import torch

    from .trained_module import TrainingModule


def optimize_training(
    module: torch.nn.Module,
    example_inputs: torch.Tensor | Sequence[Any] | Mapping[str, Any],
    example_kwargs: Mapping[str, Any] | None = None,
    *,
    target: str | None = None,
    time: BudgetLike | None = None,
    seed: int | None = None,
    config: Config | None = None,
    observer: Observer | None = None,
    progress: bool | None = None,
) -> TrainingModule:
    """Return a drop-in for training whose forward and backward run verified kernels, where the whole step is faster with them.

    Forward with what it saves is one search, backward another. Each kernel is judged alone, against float64 like every other. Then the step as a
    whole: outputs, gradients and buffers against a float64 run under the judge's budgets, and its time beside that of the original,
    eager and under `torch.compile`. A half that does not help is left out.

    Args:
        module: An `nn.Module` in the mode and on the device to train it in. It stays as it is; the result shares its parameters.
        example_inputs: A tensor, a sequence of positional arguments, or a mapping of keywords, with the shapes and dtypes to optimize for.
        example_kwargs: More keyword arguments of the call.
        target: `"cpu"` or `"cuda"`; the device that the module is on when None.
        time: `"2m"`, a number of seconds, or a `Budget`, for both searches together. None is `Budget()`.
        seed: Seed of every random choice; drawn when None.
        config: Settings; read from `warpsmith.toml` and the environment when None.
        observer: Hears of the progress instead of the terminal.
        progress: None shows progress on a terminal and in a notebook, True always, False never.

    Returns:
        A `TrainingModule`. Calls of other shapes, and calls without gradients, run what the archive has for them, and else what
        `torch.compile` makes.

    Raises:
        UsageError: Module, inputs, target and time do not fit together.
        TaskError: The step is no single graph, draws random numbers, or gives no gradients.
        ToolchainError: There is no compiler, or it does not work.
        ArchiveError: The archive cannot be opened, read or written.
        JudgeError: A trusted process was lost, or the disk is full.
    """
    from .finishing import finish
    from .searching import search_halves
    from .step import TrainingStep

    config, limits = config or Config.load(), parse_budget(time)
    args, kwargs = call_arguments(example_inputs, example_kwargs)
    target = target_of(module, (args, kwargs), target)
    seed = secrets.randbits(31) if seed is None else seed
    search = ModuleSearch(
        module, target, make_target(target, config), limits, config, Archive(config.archive), seed
    )
    with watching(observer, progress) as shown:
        step = TrainingStep(args, kwargs, seed)
        summaries = search_halves(search, step, shown)
        return finish(search, step, summaries, shown)


__all__ = ["optimize_training"]
