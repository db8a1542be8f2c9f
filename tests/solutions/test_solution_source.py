"""A solution's file is read, not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.errors import UsageError
from warpsmith.solutions.source import find_own_overrides, read_solution


@pytest.mark.parametrize(
    "text",
    ["class ModelNew: ...\n", "try:\n    class ModelNew: ...\nfinally: ...\n", "ModelNew = make()\n",
     "from kernels import Fast as ModelNew\n"],
)  # fmt: skip
def test_a_solution_defines_model_new(tmp_path: Path, text: str) -> None:
    path = tmp_path / "solution.py"
    path.write_text(text)
    assert read_solution(path) == text


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"class Model: ...\n", "defines no class ModelNew"),
        (b"class ModelNew(\n", ":1: syntax error"),
        (b"\xff\xfe", "not UTF-8"),
        (b"#" * (1 << 20) + b"##", "larger than 1 MiB"),
    ],
)
def test_what_is_no_solution_is_one_line(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "solution.py"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=says) as caught:
        read_solution(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read_solution(tmp_path / "none.py")


def test_only_constants_that_the_file_has_are_replaced() -> None:
    text = "N = 4\nM = N * 2\nclass ModelNew: ...\n"
    assert find_own_overrides(text, {"N": 7, "K": 3}) == {"N": 7}
