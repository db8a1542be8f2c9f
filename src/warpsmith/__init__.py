"""Warpsmith: point it at a PyTorch module; get back a verified, faster one, and proof."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "Budget",
    "Config",
    "OptimizedModule",
    "WarpsmithError",
    "capture",
    "compile",
    "judge_solution",
    "optimize",
    "optimize_model",
    "optimize_task",
    "optimize_training",
    "run_suite",
]

if TYPE_CHECKING:
    from .api import judge_solution, optimize, optimize_task, run_suite
    from .compiling.compiled import compile
    from .config import Config
    from .errors import WarpsmithError
    from .records import Budget
    from .runtime.module import OptimizedModule
    from .training import optimize_training
    from .whole_model import capture, optimize_model

_HOME = {
    "Budget": "records", "Config": "config", "OptimizedModule": "runtime.module", "WarpsmithError": "errors",
    "capture": "whole_model", "optimize_model": "whole_model", "compile": "compiling.compiled",
    "optimize_training": "training",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """The public names, imported when first asked for: `import warpsmith` alone stays light and free of torch."""
    if name not in __all__:
        raise AttributeError(f"module 'warpsmith' has no attribute {name!r}")
    return getattr(import_module(f".{_HOME.get(name, 'api')}", __name__), name)
