"""`warpsmith.compile`: a module or function through `torch.compile` with the backend "warpsmith", and what it used.

In: a module or a function, and inputs of one call if it is to be compiled at once. Out: a drop-in that says what it runs
(`explain`). As a decorator it takes the function that it stands above.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..api import call_arguments
from ..errors import TaskError
from ..runtime.stand_in import ModuleWrapper
from .backend import Backend
from .explanation import Explanation


class CompiledModule(ModuleWrapper):
    """A module whose calls run compiled, with kernels of the archive in them. Parameters, modes and state are the original's.

    Attributes:
        original: The module that was given.
    """

    def __init__(self, original: torch.nn.Module, settings: Mapping[str, Any]) -> None:
        super().__init__(original)
        self._settings = dict(settings)
        self._backend, self._call = _bind(original, settings)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def explain(self) -> Explanation:
        """Tell what the graphs that were compiled so far run, and why not more of them."""
        return self._backend.explain()

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load a state of the original."""
        return self.original.load_state_dict(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles compile anew at their first call."""
        return CompiledModule, (self.original, self._settings)


class CompiledFunction:
    """A function whose calls run compiled, with kernels of the archive in them."""

    def __init__(self, function: Callable[..., Any], settings: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self._backend, self._call = _bind(function, settings)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A function in a class is a method."""
        return self if instance is None else functools.partial(self, instance)

    def explain(self) -> Explanation:
        """Tell what the graphs that were compiled so far run, and why not more of them."""
        return self._backend.explain()


def compile(
    model: torch.nn.Module | Callable[..., Any] | None = None,
    example_inputs: torch.Tensor | Sequence[Any] | Mapping[str, Any] | None = None,
    example_kwargs: Mapping[str, Any] | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = False,
) -> Any:
    """Compile a module or function: verified kernels of the archive where they fit, inductor for the rest.

    Nothing is searched unless the options ask for it, and nothing is raised where no kernel fits: `explain()` says why. May stand
    above a function as a decorator, with or without arguments.

    Args:
        model: An `nn.Module` or a function of tensors; None where a decorator has arguments.
        example_inputs: A tensor, a sequence of positional arguments, or a mapping of keywords: the call that is compiled at once,
            without gradients. None compiles at the first call.
        example_kwargs: More keyword arguments of that call.
        options: `archive` (a path or URL), `search` (`"2m"`: search for a graph's kernels while compiling), `gradients` (True: use
            kernels where gradients are needed), `training` (True: kernels for both halves of a training step), `next` (the backend for the rest); others go to inductor.
        mode: A mode of inductor, such as `"max-autotune"`.
        fullgraph: As in `torch.compile`.
        dynamic: As in `torch.compile`; False gives each shape a graph of its own, since kernels are verified for one shape.

    Returns:
        A `CompiledModule` or `CompiledFunction`, or a decorator where `model` is None.

    Raises:
        UsageError: An option has a wrong value, or the archive that it names is not there.
        TaskError: `model` is neither a module nor a function.
    """
    settings = {"options": dict(options or {}), "mode": mode, "fullgraph": fullgraph, "dynamic": dynamic}
    if model is None:
        Backend(options, mode)  # a wrong option is told where it stands
        return functools.partial(_compile, settings=settings, example=None)
    example = None
    if example_inputs is not None or example_kwargs is not None:
        example = call_arguments(() if example_inputs is None else example_inputs, example_kwargs)
    return _compile(model, settings, example)


def _compile(
    model: Any, settings: Mapping[str, Any], example: tuple[tuple[Any, ...], dict[str, Any]] | None
) -> CompiledModule | CompiledFunction:
    if isinstance(model, type) or not callable(model):
        raise TaskError(f"expected an nn.Module or a function, got {model!r}; build the module first")
    compiled = (CompiledModule if isinstance(model, torch.nn.Module) else CompiledFunction)(model, settings)
    if example is not None:
        with torch.no_grad():
            compiled(*example[0], **example[1])
    return compiled


def _bind(function: Any, settings: Mapping[str, Any]) -> tuple[Backend, Callable[..., Any]]:
    backend = Backend(settings["options"], settings["mode"], settings.get("config"))
    call = torch.compile(
        function, backend=backend, fullgraph=settings["fullgraph"], dynamic=settings["dynamic"]
    )
    return backend, call


__all__ = ["CompiledFunction", "CompiledModule", "compile"]
