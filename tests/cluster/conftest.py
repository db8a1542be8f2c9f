"""For tests of suites on Ray: the folders of helpers that are no tests, here and in processes that workers start."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

FOLDERS = [str(Path(__file__).parents[n]) for n in (0, 1)] + [str(Path(__file__).parents[1] / "archive")]
sys.path[:0] = FOLDERS

from fake_ray import Stage  # noqa: E402


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def helpers_can_be_imported() -> None:
    """Processes that are started from now on find the helpers, too."""
    present = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    missing = [f for f in FOLDERS if f not in present]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*missing, *present]))
