"""What a baseline's process is told of the compiler."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from warpsmith.judge.timing.baselines import name_compiler


def test_inductor_is_told_the_compiler_only_where_it_would_take_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    usual = shutil.which("g++")
    other = tmp_path / "c++"
    other.touch(0o755)
    monkeypatch.delenv("CXX", raising=False)
    assert name_compiler(None) == name_compiler(usual) == {}
    assert name_compiler(str(other)) == {"CXX": str(other)}
    monkeypatch.setenv("CXX", "/nowhere/g++")
    assert name_compiler(str(usual)) == {"CXX": usual}
    monkeypatch.setenv("CXX", str(other))
    assert name_compiler(str(other)) == {}
