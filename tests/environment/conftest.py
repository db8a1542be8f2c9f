"""A scorer on a service that judges by formula."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scripted_author_session import service, spec, task

from warpsmith.authoring.author import LocalAuthor
from warpsmith.authoring.service import AuthoringService
from warpsmith.environment import Environment, Scorer
from warpsmith.testing import ScriptedAuthorSession

__all__ = ["service", "spec", "task"]


@pytest.fixture
def scorer(service: AuthoringService, monkeypatch: pytest.MonkeyPatch) -> Scorer:
    monkeypatch.setattr(ScriptedAuthorSession, "solutions", 0)
    return Scorer(LocalAuthor(service))


@pytest.fixture
def environment(scorer: Scorer, spec: str) -> Iterator[Environment]:
    with Environment(spec, scorer=scorer) as opened:
        yield opened
