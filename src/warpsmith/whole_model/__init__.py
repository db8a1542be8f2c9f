"""From a user's model to a faster one: run it once and see what counts, search there, compose the winners, prove and measure the whole.

`capture` looks; `optimize_model` does it all. The searches of single layers are `api.optimize`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..api import make_target
from ..budgets import parse_budget
from ..config import Config
from ..errors import UsageError
from ..progress import Observer
from ..watching import watching

if TYPE_CHECKING:
    import torch

    from ..workload.recording import Recording
    from .result import OptimizedModel


@contextmanager
def capture(model: torch.nn.Module, *, config: Config | None = None) -> Iterator[Recording]:
    """See what a model does while your own code runs it: `with warpsmith.capture(model) as seen: run(model)`.

    Read `seen` after the block: `print(seen)` shows which layers ran, how long, how far from the machine's limit, and what each
    promises; `seen.chosen` are those to optimize; `seen.tasks()` and `seen.write(folder)` make tasks of them. What the block raises is
    passed on. Code under `torch.compile` runs eagerly in it.

    Args:
        model: The model that runs in the block.
        config: Settings; read from `warpsmith.toml` and the environment when None.

    Returns:
        A context manager that gives a `Recording`.

    Raises:
        UsageError: This is no module, it never ran in the block, or another capture is running.
    """
    from ..workload.capturing import check_ran, record_calls

    with record_calls(model, config or Config.load()) as recording:
        yield recording
    check_ran(recording)


def optimize_model(
    model: torch.nn.Module,
    run: Callable[[torch.nn.Module], Any],
    time: str | float = "10m",
    *,
    seed: int | None = None,
    config: Config | None = None,
    observer: Observer | None = None,
    progress: bool | None = None,
) -> OptimizedModel:
    """Return a faster copy of a whole model for the user's own workload, with proof: parity and speedup of the whole run.

    Captures a run, searches the regions that promise most, puts the winners into a copy that shares the model's parameters, compares
    the run's outputs under the judge's error budgets, measures original and copy side by side, and keeps what helps together. Ctrl-C
    ends the searches and goes on with what they have.

    Args:
        model: The model, in the mode and on the device to optimize for. It stays as it is.
        run: A function that runs the model it is given as you do, several times if asked, without training it. What it returns and
            what the model answers is compared: tensors, losses, tokens.
        time: Time for all searches: `"90s"`, `"10m"`, or a number of seconds. It is divided by promise.
        seed: Seed of every random choice; drawn when None.
        config: Settings; read from `warpsmith.toml` and the environment when None.
        observer: Hears of the progress instead of the terminal.
        progress: None shows progress on a terminal and in a notebook, True always, False never.

    Returns:
        An `OptimizedModel`.

    Raises:
        UsageError: Model, run and time do not fit together.
        ToolchainError: There is no compiler, or it does not work.
        ArchiveError: The archive cannot be opened, read or written.
        JudgeError: A trusted process was lost, or the disk is full.
        Interrupted: A second Ctrl-C, or one while the whole is measured.
    """
    from .finishing import finish
    from .searching import ModelSearch, see

    seconds = parse_budget(time).seconds
    if seconds is None or not callable(run):
        raise UsageError('give optimize_model a function run(model), and a time such as "10m"')
    config, seed = config or Config.load(), secrets.randbits(31) if seed is None else seed
    with watching(observer, progress) as observer:
        recording = see(model, run, config, observer)
        make_target(recording.device, config)  # what would fail in every search fails here
        search = ModelSearch(recording, config, seed, observer)
        search.play(seconds)
        return finish(model, run, search, seconds)
