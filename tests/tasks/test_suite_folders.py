"""Suites from folders: one of task files, a benchmark of such folders, and their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.errors import UsageError
from warpsmith.tasks.suite import load_suite, suite_names


def make(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("")


def test_numbers_order_as_numbers(tmp_path: Path) -> None:
    make(tmp_path, "10_b.py", "2_a.py", "x.py", "_helper.py", "1_c.py", "notes.txt")
    files = load_suite(str(tmp_path))
    assert suite_names(files) == ["1_c", "2_a", "10_b", "x"]


@pytest.mark.parametrize("inside", ["", "KernelBench"])
def test_a_benchmark_of_levels_names_them(tmp_path: Path, inside: str) -> None:
    """KernelBench's own layout: the checkout, or the folder in it that holds the levels."""
    make(tmp_path / inside / "level10", "1_z.py")
    make(tmp_path / inside / "level2", "1_y.py")
    make(tmp_path / inside / "level1", "10_b.py", "1_x.py")
    make(tmp_path / inside / "_notes", "helper.py")
    make(tmp_path / inside / ".git", "hook.py")
    if inside:
        make(tmp_path, "setup.py")
    files = load_suite(str(tmp_path))
    assert suite_names(files) == ["level1/1_x", "level1/10_b", "level2/1_y", "level10/1_z"]


def test_files_in_the_folder_itself_are_the_suite(tmp_path: Path) -> None:
    make(tmp_path, "a.py")
    make(tmp_path / "more", "b.py")
    assert suite_names(load_suite(str(tmp_path))) == ["a"]


def test_a_folder_without_tasks_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "empty", "_a.py")
    with pytest.raises(UsageError, match="no task files"):
        load_suite(str(tmp_path))
    with pytest.raises(UsageError, match="suites: core"):
        load_suite("nowhere")
