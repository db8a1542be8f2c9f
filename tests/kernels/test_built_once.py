"""Processes that build the same thing at once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from built_once import built_once


def test_builders_at_once_all_see_a_whole_build(tmp_path: Path) -> None:
    """Each begins before the first has ended: the barrier stands in `make`."""
    folder, barrier = tmp_path / "shared" / "key", threading.Barrier(4, timeout=30)

    def make(aside: Path) -> list[str]:
        (aside / "source").write_text("whole")
        barrier.wait()
        return ["cp", "source", "result"]

    texts: list[str] = []

    def build() -> None:
        texts.append((built_once(folder, make) / "result").read_text())

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == ["whole"] * 4
    assert [entry.name for entry in folder.parent.iterdir()] == ["key"]


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="nothing"):
        built_once(tmp_path / "key", lambda _: ["cp", "nothing", "result"])
    assert list(tmp_path.iterdir()) == []
