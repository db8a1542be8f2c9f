"""Workers that write into one PostgreSQL archive by themselves, and what the driver makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_ray import Stage
from postgres_server import Server, why_not
from test_driver import list_winners, speedups

from warpsmith.archive.store import Archive
from warpsmith.records import RunSummary

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def make_stage(server: Server, name: str, folder: Path, patch: pytest.MonkeyPatch, nodes: int) -> Stage:
    stage = Stage(folder, patch, nodes=nodes, tasks="abc")
    stage.url = server.make_database(name)
    stage.archive = Archive(stage.url)
    return stage


def test_a_forged_win_that_was_written_directly_loses_its_place(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = make_stage(server, "forged", tmp_path, monkeypatch, nodes=3)
    summaries = stage.run(stage.make_playing(sends=False, forge={"host-n0": 10.0}))
    assert [s.status for s in summaries] == ["win"] * 3
    assert "host-n0 is set aside: its win on" in stage.notes
    assert list_winners(stage.archive) == pytest.approx(speedups(summaries))
    assert max(speedups(summaries).values()) < 3


def test_a_server_that_crashes_between_two_runs_loses_nothing(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = make_stage(server, "crashed", tmp_path, monkeypatch, nodes=2)
    crashes: list[str] = []

    def crash(summary: RunSummary, to_come: int) -> None:
        if not crashes:
            crashes.append(summary.task)
            server.stop()
            server.start()

    summaries = stage.run(stage.make_playing(sends=False), finished=crash)
    assert crashes
    assert [s.status for s in summaries] == ["win"] * 3
    assert list_winners(stage.archive) == pytest.approx(speedups(summaries))
