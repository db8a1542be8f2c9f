"""A service whose archive holds one small task, judged by formula: its faces are tested in milliseconds,
without a compiler or torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsmith.authoring import service as module
from warpsmith.authoring import task_queries
from warpsmith.authoring.author import LocalAuthor
from warpsmith.authoring.service import AuthoringService
from warpsmith.config import Config
from warpsmith.records import Task
from warpsmith.testing import ScriptedAuthorSession, chain_task
from warpsmith.testing import write_scripted_unit as unit

__all__ = ["ScriptedAuthorSession", "author", "service", "spec", "task", "unit"]


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AuthoringService]:
    monkeypatch.setattr(module, "AuthorSession", ScriptedAuthorSession)
    monkeypatch.setattr(task_queries, "find_peaks", lambda config, target: None)
    for counter in ("opened", "judged", "screened"):
        monkeypatch.setattr(ScriptedAuthorSession, counter, 0)
    config = Config(archive=tmp_path / "archive.db", cache=tmp_path / "cache")
    with AuthoringService(config, open_session=ScriptedAuthorSession) as opened:
        yield opened


@pytest.fixture
def task(service: AuthoringService) -> Task:
    made = chain_task(("aten.exp.default", "aten.neg.default"))
    service.archive.add_task(made)
    return made


@pytest.fixture
def author(service: AuthoringService) -> LocalAuthor:
    return LocalAuthor(service)


@pytest.fixture
def spec(task: Task) -> str:
    return f"archive:{task.id}"
