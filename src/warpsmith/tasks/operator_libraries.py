"""Operators that a library registers itself, in a saved program: whoever loads the program imports that library first.

A graph holds ATen alone (`decompositions`), but the user's own module is timed as it is: its operators stay what they are.
"""

from __future__ import annotations

import importlib
import json
import zipfile
from pathlib import Path
from typing import Any

import torch

from ..errors import TaskError

EXTRA = "operator_libraries.json"  # in the archive of a saved program
TORCH = ("aten", "prim", "prims", "higher_order", "_c10d_functional", "quantized", "torch")


def list_libraries(program: Any) -> list[str]:
    """Modules whose import registers the program's operators outside torch."""
    modules = [m for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    targets = {node.target for m in modules for node in m.graph.nodes if node.op == "call_function"}
    named = {t.name() for t in targets if isinstance(t, torch._ops.OpOverload) and t.namespace not in TORCH}
    return sorted({_find_module(name.partition(".")[0]) for name in named})


def _find_module(operator: str) -> str:
    """The module that defines "library::operator"; the library's own name where torch does not know."""
    definition = getattr(torch._library.custom_ops, "OPDEFS", {}).get(operator)
    return definition._init_fn.__module__ if definition is not None else operator.partition("::")[0]


def save_program(program: Any, path: Path) -> None:
    torch.export.save(program, path, extra_files={EXTRA: json.dumps(list_libraries(program))})


def load_program(path: str | Path) -> Any:
    """Raises TaskError where a library that the program needs is not here."""
    for module in _read_libraries(Path(path)):
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise TaskError(
                f"the module calls operators of {module}, which cannot be imported: {error}"
            ) from error
    return torch.export.load(path)


def _read_libraries(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        entry = next((name for name in archive.namelist() if name.endswith(EXTRA)), None)
        return [] if entry is None else json.loads(archive.read(entry))
