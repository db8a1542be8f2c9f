"""The environment over HTTP, through a real socket, keeps the contract of the one in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from served_author import Served

from warpsmith.environment import Environment
from warpsmith.testing import EnvironmentContract, ScriptedAuthorSession


@pytest.fixture
def environment(served: Served, spec: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Environment]:
    monkeypatch.setattr(ScriptedAuthorSession, "solutions", 0)
    with Environment(spec, server=served.url, token=served.tokens["ada"]) as opened:
        yield opened


class TestRemoteEnvironment(EnvironmentContract):
    pass
