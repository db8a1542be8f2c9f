"""A small archive of everything that a site shows: wins, losses, failures, screened, imported, a quarantined task."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import launch_browser

sys.path.insert(0, str(Path(__file__).parent))  # for helpers that are no tests

from site_sample import fill_sample

from warpsmith import machine
from warpsmith.archive import Archive, import_jsonl
from warpsmith.records import Environment, Result


@pytest.fixture(scope="session")
def environment() -> Environment:
    return machine.describe()


@pytest.fixture
def open_archive(tmp_path: Path) -> Iterator[Callable[[str], Archive]]:
    """Open, and make, an archive by name."""
    opened: list[Archive] = []

    def make(name: str = "a.db") -> Archive:
        opened.append(Archive(tmp_path / name))
        return opened[-1]

    yield make
    for archive in opened:
        archive.close()


@pytest.fixture
def sample(open_archive: Callable[[str], Archive], environment: Environment) -> Archive:
    return fill_sample(open_archive("sample.db"), environment)


@pytest.fixture
def judged_at() -> Callable[[Result, int], Result]:
    """Copy a result as judged at a second."""
    return lambda result, second: result.model_copy(
        update={"judged_at": f"2026-01-01T00:00:{second:02d}+00:00"}
    )


@pytest.fixture(scope="session")
def small_archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    """Two real runs on a GPU, five results each, as they were recorded."""
    folder = tmp_path_factory.mktemp("small")
    lines = folder / "small.jsonl"
    lines.write_bytes(gzip.decompress((Path(__file__).parent / "data/small_archive.jsonl.gz").read_bytes()))
    archive = Archive(folder / "small.db")
    import_jsonl(archive, lines)
    yield archive
    archive.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for the tests of a module."""
    with launch_browser() as browser:
        yield browser
