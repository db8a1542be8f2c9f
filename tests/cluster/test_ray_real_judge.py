"""A suite of two tasks, and the command `optimize`, with the real judge and the real worker on a real Ray. What clocks say decides
nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_ray import Notes

pytest.importorskip("ray")

from local_ray import start_cluster

from warpsmith import Config, api, run_suite
from warpsmith.archive.store import Archive
from warpsmith.cluster.settings import RaySettings
from warpsmith.records import Budget, RunSummary
from warpsmith.tasks.suite import SUITES

TASKS = ("elementwise_clamp_chain", "reduce_mean_first")


def write_small(name: str, folder: Path) -> Path:
    """Write a task of the core suite with few rows."""
    text = (SUITES / "core" / f"{name}.py").read_text()
    path = folder / f"{name}.py"
    path.write_text(re.sub(r"^rows = \d+$", "rows = 128", text, flags=re.MULTILINE))
    return path


def play_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have workers play and confirm with few rounds."""
    make_settings = api.make_lane_settings
    monkeypatch.setattr(api, "LANE_PLAY", "cluster_plays:play_briefly")
    monkeypatch.setattr(
        api, "make_lane_settings", lambda *a: make_settings(*a) | {"confirm": "cluster_plays:confirm_briefly"}
    )


@pytest.mark.slow
@pytest.mark.alone
def test_two_tasks_are_judged_on_two_nodes_and_their_results_are_kept(
    helpers_can_be_imported: None,
    with_peaks: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    suite = tmp_path / "suite"
    suite.mkdir()
    for name in TASKS:
        write_small(name, suite)
    play_briefly(monkeypatch)
    cache = with_peaks(tmp_path / "cache", 1)
    config = Config(archive=tmp_path / "archive.db", cache=cache, baselines=("eager",), confirm=1, threads=1)
    notes = Notes()
    with start_cluster(2) as (whole, _):
        settings = RaySettings(whole.address, one_a_machine=False)
        summaries = run_suite(
            str(suite), budget=Budget(evaluations=1, seconds=4.0), seed=1, config=config, observer=notes, ray=settings
        )  # fmt: skip
    assert [s.task for s in summaries] == list(TASKS)
    assert all(s.status in ("win", "no-win", "too-busy") for s in summaries), [s.reason for s in summaries]
    archive = Archive(tmp_path / "archive.db")
    for summary in summaries:
        statuses = [e.result.status for e in archive.run_entries(summary.run_id)]
        assert "ok" in statuses  # verified in the node's process, checked and kept here
    assert sum(" joins: " in note for note in notes.notes) == 2


@pytest.mark.slow
@pytest.mark.alone
def test_the_command_optimize_searches_on_a_ray_of_its_own_and_keeps_the_run_here(
    helpers_can_be_imported: None,
    with_peaks: Callable[..., Path],
    command: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = write_small(TASKS[0], tmp_path)
    play_briefly(monkeypatch)
    monkeypatch.setenv("WARPSMITH_CACHE", str(with_peaks(tmp_path / "cache", 1)))
    monkeypatch.setenv("WARPSMITH_THREADS", "1")
    monkeypatch.setenv("WARPSMITH_CONFIRM", "1")
    code, out, err = command(
        "optimize", str(path), "--ray", "local", "--budget", "1", "--time", "4s", "--seed", "1",
        "--baselines", "eager", "--archive", "archive.db", "--json", "out.json",
    )  # fmt: skip
    assert code == 0, err
    assert " joins: " in err
    summary = RunSummary.model_validate_json((tmp_path / "out.json").read_text())
    assert f"{TASKS[0]}: {summary.status}" in out
    assert f"warpsmith report {summary.run_id}" in out
    archive = Archive(tmp_path / "archive.db")
    assert archive.run(summary.run_id).summary == summary
    assert "ok" in [e.result.status for e in archive.run_entries(summary.run_id)]
