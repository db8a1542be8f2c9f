"""Captures what runs: a model that the caller holds, or a script, whose model is found by its calls.

In: a module, or the path of a script with its arguments. Out: `Recording`.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import torch

from ..config import Config
from ..errors import UsageError
from ..tasks.export import describe
from .recorder import Recorder, is_compiled, unwrap
from .recording import Recording

COMPILED = "the model is compiled, which hides its layers: this run was eager"


@contextmanager
def record_calls(model: torch.nn.Module, config: Config) -> Iterator[Recording]:
    """Record the calls of the model and its submodules in the block. Raises UsageError for what is no module."""
    check_module(model)
    recorder = Recorder()
    recording = Recording(None, recorder, config)
    if any(is_compiled(part) for part in model.modules()):
        recording.notes.append(COMPILED)
    recorder.start()
    try:
        yield recording
    finally:
        recorder.stop()
        recording.set_model(unwrap(model))


def check_module(model: Any) -> None:
    """Raises UsageError for what is no module."""
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"expected a torch.nn.Module, got {type(model).__name__}: give the model that runs")


def check_ran(recording: Recording) -> None:
    """Raises UsageError where neither the model nor a part of it was called."""
    if not recording.has_calls:
        raise UsageError(
            f"{type(recording.model).__name__} was never called: run it, as model(...), where it is captured"
        )


def capture_script(
    script: Path, arguments: Sequence[str], config: Config, name: str | None = None, quiet: bool = False
) -> Recording:
    """Run a script as `__main__` and see its model: the variable of that name, or the outermost module that ran longest.

    `quiet`: what it prints goes to standard error. Raises UsageError for a script that fails, or runs no model.
    """
    if not script.is_file():
        raise UsageError(f"cannot read {script}: name a Python file that runs your model")
    recorder = Recorder()
    recorder.start()
    try:
        names = _run_script(script, arguments, quiet)
    finally:
        recorder.stop()
    recording = Recording(None, recorder, config)
    if name is not None:
        recording.set_model(unwrap(_find_named(names, name, script)))
    else:
        outermost = _list_outermost(recorder)
        if not outermost:
            raise UsageError(f"{script} calls no torch.nn.Module: run the model in it, as model(...)")
        recording.set_model(outermost[0])
        if len(outermost) > 1:
            other_names = ", ".join(type(m).__name__ for m in outermost[1:4])
            recording.notes.append(f"other models ran, too ({other_names}): --model NAME names another")
    check_ran(recording)
    return recording


def _run_script(script: Path, arguments: Sequence[str], quiet: bool) -> dict[str, Any]:
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.absolute().parent))
    try:
        with redirect_stdout(sys.stderr if quiet else sys.stdout):
            return runpy.run_path(str(script), run_name="__main__")
    except SystemExit as error:
        if error.code in (None, 0):
            return {}  # its variables are lost
        raise UsageError(
            f"{script} ended with exit code {error.code}: it must run the model to its end"
        ) from error
    except Exception as error:
        raise UsageError(
            f"{describe(error, str(script), f'running {script}')}; it must run without Warpsmith first"
        ) from error
    finally:
        sys.argv, sys.path[:] = argv, path


def _find_named(names: dict[str, Any], name: str, script: Path) -> torch.nn.Module:
    first, *attributes = name.split(".")
    value = names.get(first)
    for attribute in attributes:
        value = getattr(value, attribute, None)
    if not isinstance(value, torch.nn.Module):
        modules = ", ".join(sorted(n for n, v in names.items() if isinstance(v, torch.nn.Module)))
        raise UsageError(
            f"--model {name}: {script} has no such module; it has {modules or 'none by a name that outlives it'}"
        )
    return value


def _list_outermost(recorder: Recorder) -> list[torch.nn.Module]:
    """Modules that no other one called, and that hold others where some do; what ran longest comes first."""
    seconds: dict[int, float] = {}
    modules: dict[int, torch.nn.Module] = {}
    for group in recorder.groups.values():
        if group.outermost_calls:
            modules[id(group.module)] = group.module
            seconds[id(group.module)] = seconds.get(id(group.module), 0.0) + sum(group.times_s)
    return [modules[number] for number in sorted(seconds, key=lambda n: -seconds[n])]
