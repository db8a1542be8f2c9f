"""The wheel and the sdist: all of the package and nothing else, metadata that an index takes, and a program that starts from them."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from warpsmith.cli.main import main; main()"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import distributions

    assert distributions.__file__ == str(ROOT / "scripts" / "distributions.py")
    return distributions


def test_wheel_holds_the_package_and_its_program_starts(script: ModuleType, tmp_path: Path) -> None:
    sdist, wheel = script.build(tmp_path / "dist")
    assert script.check(sdist, wheel) == []
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "unpacked")
    suffixes = {p.suffix for p in (tmp_path / "unpacked" / "warpsmith").rglob("*") if p.is_file()}
    assert {".py", ".cuh", ".h", ".html", ".js", ".css", ".md"} <= suffixes

    def start(*arguments: str) -> str:
        command = [sys.executable, "-c", START, str(tmp_path / "unpacked"), *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert start("--version").startswith("warpsmith ")
    assert str(tmp_path / "unpacked") in start("tasks", "list", "demo", "--json", "-")


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_file_that_is_missing_or_foreign_is_named(script: ModuleType, kind: str) -> None:
    names = script.list_sources()
    assert script.find_faults(names, kind) == []
    header = "warpsmith/targets/warpsmith_simd.h"
    assert script.find_faults(names - {header}, kind) == [f"the {kind} lacks {header}"]
    foreign = script.find_faults(names | {"tests/test_cli.py"}, "wheel")
    assert foreign == ["the wheel holds tests/test_cli.py, which is not the package's"]
    assert script.find_faults(names | {"warpsmith-0.1.0.dist-info/METADATA"}, "wheel") == []
