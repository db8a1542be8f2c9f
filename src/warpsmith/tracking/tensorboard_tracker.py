"""TensorBoard: event files under a folder, a folder a run, written by TensorBoard's own writer without torch."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.text.metadata import create_summary_metadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from ..errors import UsageError
from .tracker import Ending, TrackedRun

TEXTS = (".md", ".cpp", ".cu")  # files that TensorBoard can show


class TensorBoardTracker:
    """`tensorboard:FOLDER`. A run that is resumed adds a file to its folder."""

    def __init__(self, place: str) -> None:
        if not place:
            raise UsageError("the tracker tensorboard needs a folder: --track tensorboard:FOLDER")
        self._folder, self._step = Path(place).expanduser().absolute(), 0

    def begin(self, run: TrackedRun) -> None:
        self._writer = EventFileWriter(str(self._folder / f"{run.task}-{run.run_id}"))
        rows = {"target": run.target, "suite": run.suite, **run.settings}
        self._write(_make_text("settings", _make_table(rows)))
        self._writer.flush()

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._step = step
        self._write(*(Summary.Value(tag=name, simple_value=value) for name, value in values.items()))
        self._writer.flush()

    def finish(self, ending: Ending) -> None:
        self.log(ending.values, self._step)
        self._write(_make_text("ending", ending.line))
        for file in ending.files:
            if file.suffix in TEXTS:
                text = file.read_text(encoding="utf-8")
                self._write(_make_text(file.name, text if file.suffix == ".md" else f"```cpp\n{text}\n```"))
        self._writer.close()

    def _write(self, *values: Summary.Value) -> None:
        self._writer.add_event(Event(wall_time=time.time(), step=self._step, summary=Summary(value=values)))


def _make_text(tag: str, text: str) -> Summary.Value:
    metadata: SummaryMetadata = create_summary_metadata(display_name="", description="")
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    tensor = TensorProto(dtype=DT_STRING, string_val=[text.encode()], tensor_shape=shape)
    return Summary.Value(tag=f"{tag}/text_summary", metadata=metadata, tensor=tensor)


def _make_table(rows: Mapping[str, str]) -> str:
    return "| setting | value |\n|---|---|\n" + "\n".join(f"| {k} | {v} |" for k, v in rows.items() if v)
