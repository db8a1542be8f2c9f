"""Task files of exported modules: written, moved, read again, refused when damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from warpsmith.errors import TaskError
from warpsmith.processes.buffers import Scratch
from warpsmith.tasks.load import load_task
from warpsmith.tasks.memory import task_from_module
from warpsmith.tasks.saved import save_task


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    task = task_from_module(torch.nn.Linear(4, 4), (torch.randn(2, 4),), {}, tmp_path / "here")
    return save_task(task, tmp_path / "here")


def test_saved_task_loads_where_its_files_were_moved(file: Path, tmp_path: Path) -> None:
    shutil.move(tmp_path / "here", tmp_path / "there")
    with Scratch() as scratch:
        task = load_task(str(tmp_path / "there" / file.name), scratch=scratch)
    assert Path(task.source.export_file).parent == tmp_path / "there"
    assert [n.op for n in task.graph.nodes] == ["aten.linear.default"]


def test_damaged_or_lonely_files_are_refused(file: Path, tmp_path: Path) -> None:
    lonely = tmp_path / file.name
    shutil.copy(file, lonely)
    with Scratch() as scratch:
        with pytest.raises(TaskError, match="move both together"):
            load_task(str(lonely), scratch=scratch)
        with pytest.raises(TaskError, match="no constants to override"):
            load_task(str(file), scratch=scratch, overrides={"rows": 3})
        file.write_text("{}")
        with pytest.raises(TaskError, match="no task that a capture wrote"):
            load_task(str(file), scratch=scratch)
        with pytest.raises(TaskError, match="no such file"):
            load_task(str(tmp_path / "none.task.json"), scratch=scratch)
