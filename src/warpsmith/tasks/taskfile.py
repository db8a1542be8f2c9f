"""A task's Python file: run, its module built, its inputs made, each failure one TaskError with the line.

In: a `TaskSource` and overrides of its constants. Out: the constructed `nn.Module` and the arguments of one
call of its forward. Runs the task's code: for untrusted processes only.
"""

from __future__ import annotations

import importlib.util
import linecache
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from ..errors import TaskError
from ..records import TaskSource
from .export import describe, last_line_in
from .source import parse, replace_constants
from .structure import NotRebuildable, take_apart


class TaskFile:
    """A task's file, parsed once and run once for each build."""

    def __init__(self, source: TaskSource, overrides: Mapping[str, Any]) -> None:
        self.source, self.filename = source, source.path
        text, self.name, self.package = source.text, f"warpsmith_task_{Path(source.path).stem}", ""
        if source.kind == "module":
            self.name = source.path.partition(":")[0]
            text, self.filename, self.package = read_module(self.name, text)
        self.text = text
        self.tree = replace_constants(parse(text, self.filename), overrides, self.filename)
        self.namespace: dict[str, Any] = {}

    def run(self) -> None:
        """Execute the file. Raises TaskError with the line."""
        module = types.ModuleType(self.name)
        module.__file__, module.__package__ = self.filename, self.package
        # Tools such as torch.jit look a class's source up by its module's name and file.
        sys.modules[self.name] = module
        linecache.cache[self.filename] = (len(self.text), None, self.text.splitlines(True), self.filename)
        code = compile(self.tree, self.filename, "exec")
        self._guard("running the file", lambda: exec(code, module.__dict__))
        self.namespace = module.__dict__

    def module(self) -> tuple[torch.nn.Module, str]:
        entry = self.namespace.get(self.source.entry)
        if entry is None:
            raise TaskError(
                f"{self.filename} defines no class {self.source.entry}(nn.Module), which is the task"
            )
        if not (isinstance(entry, type) and issubclass(entry, torch.nn.Module)):
            raise TaskError(f"{self.source.entry} in {self.filename} is not a subclass of torch.nn.Module")
        args, kwargs = self.init_arguments()
        module: torch.nn.Module = self._guard(
            f"building {self.source.entry}(*get_init_inputs())", lambda: entry(*args, **kwargs)
        )
        return module, without_dropout(module)

    def init_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what the class is constructed with; nothing where the file has no get_init_inputs()."""
        if self._function("get_init_inputs") is None:
            return (), {}
        return self._arguments("get_init_inputs")

    def inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if not self.namespace:
            self.run()
        if self._function("get_inputs") is None:
            raise TaskError(
                f"{self.filename} defines no get_inputs(): it must return the list of forward's arguments"
            )
        args, kwargs = self._arguments("get_inputs")
        try:
            _, parts = take_apart((args, kwargs))
        except NotRebuildable as error:
            raise TaskError(f"get_inputs() in {self.filename} returns {error}") from error
        if not parts.leaves:
            raise TaskError(f"get_inputs() in {self.filename} returns no tensor")
        return args, kwargs

    def _function(self, name: str) -> Callable[[], Any] | None:
        """A function of the file, or a static method of the class."""
        function = self.namespace.get(name) or getattr(self.namespace.get(self.source.entry), name, None)
        return function if callable(function) else None

    def _arguments(self, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """A list of arguments.

        Also, as KernelBench's descendants write it, a dict of keywords or [list, dict].
        """
        function = self._function(name)
        assert function is not None
        arguments = self._guard(f"{name}()", function)
        if isinstance(arguments, dict):
            return (), arguments
        if isinstance(arguments, list | tuple):
            if len(arguments) == 2 and isinstance(arguments[0], list | tuple) and _is_keywords(arguments[1]):
                return tuple(arguments[0]), dict(arguments[1])
            return tuple(arguments), {}
        raise TaskError(
            f"{name}() in {self.filename} must return a list of arguments; it returns {type(arguments).__name__}"
        )

    def _guard(self, doing: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except TaskError:
            raise
        except MemoryError as error:
            raise TaskError(f"{doing} needs more memory than the limit allows; use smaller sizes") from error
        except ModuleNotFoundError as error:
            raise TaskError(self._missing(error)) from error
        except (Exception, SystemExit) as error:
            text = str(error)
            if "DefaultCPUAllocator" in text or "can't allocate memory" in text:
                raise TaskError(
                    f"{doing} needs more memory than the limit allows; use smaller sizes"
                ) from error
            raise TaskError(describe(error, self.filename, doing)) from error

    def _missing(self, error: ModuleNotFoundError) -> str:
        at = last_line_in(error, self.filename) or self.filename
        package = (error.name or "").partition(".")[0]
        if not package:
            return f"{error} ({at})"
        return (
            f"the package {package} is not installed ({at}): pip install {package}, or put the folder that holds "
            "it on PYTHONPATH"
        )


def read_module(name: str, text: str) -> tuple[str, str, str]:
    """(text, file, package) of an importable module, found but not run. Raises TaskError."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError) as error:
        raise TaskError(f"cannot import {name}: {error}") from error
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise TaskError(
            f"there is no Python module {name}; is its folder on PYTHONPATH or the current folder?"
        )
    package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
    return text or Path(spec.origin).read_text(), spec.origin, package


def without_dropout(module: torch.nn.Module) -> str:
    """Switch dropout layers in training mode off, as random outputs cannot be compared.

    Returns a note, or nothing.
    """
    active = [
        m
        for m in module.modules()
        if isinstance(m, torch.nn.modules.dropout._DropoutNd) and m.training and m.p > 0
    ]
    for layer in active:
        layer.eval()
    kinds = ", ".join(sorted({type(m).__name__ for m in active}))
    return f"{kinds} switched off: random outputs cannot be verified" if active else ""


def _is_keywords(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)
