"""What every test of a lab script needs."""

from __future__ import annotations

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def instruments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put instruments on the path anew: `import benchmarks_on_path` does so once a process, and a test takes it back."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
