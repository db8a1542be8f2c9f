"""The supervisor's end of a task host.

Requests out, validated records in, one clear TaskError for every way it can go wrong.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import psutil
from pydantic import ValidationError

from .. import machine
from ..ahead import EXPORTER, HOSTED
from ..errors import TaskError
from ..processes.buffers import Scratch
from ..processes.worker import Worker, WorkerDied, WorkerFailed, WorkerTimeout
from ..records import Graph, TaskSource, Variant

MAX_MEMORY_BYTES = 16 << 30


class TaskHost:
    """A confined process that runs one task's Python. `timeout` (seconds) and `memory_bytes` bound each
    request. `exports`: it will be asked for graphs, so what that takes is imported before it is forked.
    """

    def __init__(
        self, source: TaskSource, *, scratch: Scratch, timeout: float = 60.0, memory_bytes: int | None = None,
        exports: bool = False,
    ) -> None:  # fmt: skip
        self.source, self.timeout, self.note = source, timeout, ""
        if memory_bytes is None:
            memory_bytes = min(MAX_MEMORY_BYTES, max(psutil.virtual_memory().available // 2, 1 << 30))
        self.memory_bytes = memory_bytes
        workdir = scratch.new("host")
        options = {"writable": [str(workdir), str(scratch.path)], "memory_bytes": memory_bytes}
        self.worker = Worker(
            "warpsmith.tasks.host", workdir, env=worker_env(source), args=(json.dumps(options),),
            preload=(HOSTED, EXPORTER) if exports and machine.gpu() is None else (HOSTED,),
        )  # fmt: skip

    def export(self, overrides: dict[str, Any]) -> Graph:
        """The task's graph with these constants replaced. Raises TaskError."""
        answer = self._call("export", source=self.source.model_dump(mode="json"), overrides=overrides)
        try:
            graph = Graph.model_validate(answer.get("graph"))
            # A source of kind "module" learns its text here, so that the record alone can rebuild the task.
            self.source = TaskSource.model_validate({**self.source.model_dump(), "text": answer.get("text")})
        except ValidationError as error:
            raise TaskError(f"{self.source.path}: the task's process sent a malformed graph") from error
        self.note = str(answer.get("note", ""))
        return graph

    def materialise(self, variant: Variant, seed: int, path: Path) -> None:
        """Write a values file of the variant's own parameters and inputs.

        Its size is the caller's to check. Raises TaskError.
        """
        inputs = [i.model_dump(mode="json") for i in variant.graph.inputs]
        source = self.source.model_dump(mode="json")
        self._call(
            "materialise",
            source=source,
            overrides=variant.overrides,
            seed=seed,
            path=str(path),
            inputs=inputs,
        )

    def init_inputs(self, overrides: dict[str, Any]) -> dict[str, Any]:
        """`{"args", "kwargs"}` of the task's constructor, encoded (`tasks.arguments`). Raises TaskError."""
        source = self.source.model_dump(mode="json")
        return self._call("init_inputs", source=source, overrides=overrides)

    def _call(self, op: str, **fields: Any) -> dict[str, Any]:
        try:
            return self.worker.call(op, timeout=self.timeout, **fields)
        except WorkerFailed as error:
            raise TaskError(self._prefix_path(str(error))) from error
        except WorkerTimeout as error:
            raise TaskError(
                f"{self.source.path}: not done after {self.timeout:g} s, stopped; does it loop for ever?"
            ) from error
        except WorkerDied as error:
            how = str(error).partition("(")[2].rstrip(")") or "no answer"
            raise TaskError(
                f"{self.source.path}: the task's Python ended its process ({how}); "
                f"a crash in native code, or more memory than the {self.memory_bytes / 2**30:.0f} GiB allowed"
            ) from error

    def _prefix_path(self, message: str) -> str:
        return message if self.source.path in message else f"{self.source.path}: {message}"

    def close(self) -> None:
        self.worker.close()

    def __enter__(self) -> TaskHost:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def worker_env(source: TaskSource) -> dict[str, str]:
    """Environment for any process that runs the task's own Python.

    What the file imports from its own folder is found.
    """
    folders = [os.getcwd()] if source.kind == "module" else [str(Path(source.path).absolute().parent)]
    package = importlib.util.find_spec("warpsmith")
    if package is not None and package.origin is not None:
        folders.insert(0, str(Path(package.origin).parent.parent))
    # The worker has a folder of its own, from which a relative path would name something else.
    folders += [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    return {"PYTHONPATH": os.pathsep.join(folders)}
