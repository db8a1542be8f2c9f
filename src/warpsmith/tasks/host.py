"""The task host: a worker process that runs a task's Python, which nobody else may (`python -m
warpsmith.tasks.host`).

Requests: `export` a source under fake tensors → its graph; `materialise` → a values file with real
parameters and inputs. The process confines itself before torch, and so before any thread or any of the
task's code, is loaded. `load_reference` is for the processes that time the user's own module; importing it
imports torch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..processes.sandbox import restrict
from ..processes.worker import serve
from ..records import GraphInput, TaskSource

if TYPE_CHECKING:
    from .hosted import HostedModule


def export(source: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """{"graph", "note", "text"}: `text` is the file's, which a source of kind "module" does not know yet."""
    from .hosted import export_source
    from .taskfile import TaskFile

    record = TaskSource.model_validate(source)
    text = record.text or TaskFile(record, {}).text
    graph, note = export_source(record.model_copy(update={"text": text}), overrides)
    return {"graph": graph.model_dump(mode="json"), "note": note, "text": text}


def materialise(
    source: dict[str, Any], overrides: dict[str, Any], seed: int, path: str, inputs: list[Any]
) -> dict[str, Any]:
    """Write the values of `inputs` (GraphInput records), drawn with the seed, to a values file at `path`."""
    from .values import write_tensors

    record = TaskSource.model_validate(source)
    items = tuple(GraphInput.model_validate(i) for i in inputs)
    if record.kind == "memory":
        from .memory import load_saved_values

        values = load_saved_values(Path(record.export_file), items, seed)
    else:
        from .hosted import real_values

        values = real_values(record, overrides, seed, items)
    write_tensors(Path(path), [i.spec for i in items], values)
    return {}


def init_inputs(source: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """The arguments that the task constructs its module with, as `arguments.encode` writes them."""
    from .arguments import encode
    from .taskfile import TaskFile

    record = TaskSource.model_validate(source)
    if record.kind == "memory":
        return {"args": encode(()), "kwargs": encode({})}
    file = TaskFile(record, overrides)
    file.run()
    args, kwargs = file.init_arguments()
    return {"args": encode(args), "kwargs": encode(kwargs)}


def load_reference(source: TaskSource, overrides: dict[str, Any] | None = None) -> HostedModule:
    """The user's module, for the eager and compiled baselines.

    See `hosted.HostedModule`. Raises TaskError.
    """
    from .hosted import load_reference as load

    return load(source, overrides)


def main() -> None:
    options = json.loads(sys.argv[4]) if len(sys.argv) > 4 else {}
    if options.get("confine", True):
        restrict(
            [Path(p) for p in options.get("writable", [])],
            memory_bytes=options.get("memory_bytes"),
            network=False,
        )
    serve({"export": export, "materialise": materialise, "init_inputs": init_inputs})


if __name__ == "__main__":
    main()
