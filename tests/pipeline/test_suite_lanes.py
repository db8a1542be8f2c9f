"""A suite in lanes: real processes that play stand-ins of runs (`lane_plays.py`)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from warpsmith.errors import ArchiveError, Interrupted
from warpsmith.machine import affinity, split_cores
from warpsmith.pipeline.lane_client import LaneSettings
from warpsmith.pipeline.suite import Suite
from warpsmith.pipeline.suite_lanes import play_in_lanes
from warpsmith.progress import SilentObserver
from warpsmith.records import RunSummary


class Notes(SilentObserver):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.over: list[RunSummary] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def finish(self, summary: RunSummary) -> None:
        self.over.append(summary)


@pytest.fixture(autouse=True)
def _plays_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, folders)))


def suite_of(*names: str, **fields: Any) -> Suite:
    return Suite([(f"level1/{name}", Path(f"{name}.py")) for name in names], "cuda", **fields)


def lanes_of(
    count: int, play: str, folder: Path, gpus: tuple[str, ...] = (), **settings: Any
) -> LaneSettings:
    fields = {"folder": str(folder), "lanes": count, **settings}
    return LaneSettings(count, f"lane_plays:{play}", fields, folder / "logs", gpus)


def test_summaries_are_in_the_order_of_the_tasks_whichever_ends_first(tmp_path: Path) -> None:
    notes, heard = Notes(), []
    summaries = play_in_lanes(
        suite_of("a", "b"), lanes_of(2, "meet", tmp_path, last="b"), notes, lambda s, left: heard.append((s.task, left))
    )  # fmt: skip
    assert [s.task for s in summaries] == ["level1/a", "level1/b"]
    assert heard == [("level1/b", 1), ("level1/a", 0)]
    by_lane = [
        [n.partition(": ")[2] for n in notes.notes if n.startswith(f"lane {lane}: ")] for lane in (1, 2)
    ]
    assert sorted(by_lane) == [["[1/2] level1/a", "playing a.py"], ["[2/2] level1/b", "playing b.py"]]
    assert [s.task for s in notes.over] == ["b", "a"]


def test_a_lane_keeps_its_process_and_works_in_the_commands_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    summaries = play_in_lanes(suite_of("a", "b", seed=3, samples=2), lanes_of(1, "win", tmp_path), Notes())
    assert len({s.run_id for s in summaries}) == 1
    assert summaries[0].run_id.split("|")[1] == str(tmp_path)
    assert [(s.task, s.seed) for s in summaries] == [
        ("level1/a", 3), ("level1/b", 3), ("level1/a", 4), ("level1/b", 4)
    ]  # fmt: skip


def test_lanes_are_spread_over_the_gpus_and_the_processors(tmp_path: Path) -> None:
    lanes = lanes_of(3, "meet", tmp_path, ("GPU-a", "GPU-b"), last="c")
    summaries = play_in_lanes(suite_of("a", "b", "c"), lanes, Notes())
    parts = [s.run_id.split("|") for s in summaries]
    assert len({part[0] for part in parts}) == 3
    assert sorted(part[3] for part in parts) == ["GPU-a", "GPU-a", "GPU-b"]
    assert {int(part[2]) for part in parts} == {len(split_cores(3)[0])}


def test_a_run_whose_lane_is_killed_is_played_by_another(tmp_path: Path) -> None:
    notes = Notes()
    summaries = play_in_lanes(suite_of("a", "b", "c"), lanes_of(2, "die", tmp_path, deaths=1), notes)
    assert [(s.task, s.status) for s in summaries] == [
        ("level1/a", "win"), ("level1/b", "win"), ("level1/c", "win")
    ]  # fmt: skip
    assert len(list(tmp_path.glob("*.died"))) == 1
    assert any("level1/b is put back" in n and "SIGKILL" in n for n in notes.notes)


def test_a_run_that_kills_two_lanes_is_a_failed_row(tmp_path: Path) -> None:
    notes = Notes()
    summaries = play_in_lanes(suite_of("a", "b", "c"), lanes_of(2, "die", tmp_path, deaths=9), notes)
    assert [(s.task, s.status) for s in summaries] == [
        ("level1/a", "win"), ("level1/b", "failed"), ("level1/c", "win")
    ]  # fmt: skip
    assert len(list(tmp_path.glob("*.died"))) == 2
    assert "2 lanes ended while playing it" in summaries[1].reason
    assert "SIGKILL" in summaries[1].reason
    assert "last words" in Path(summaries[1].reason.rpartition("details in ")[2]).read_text()
    assert summaries[1].reason in [s.reason for s in notes.over]


def test_tasks_that_fail_are_rows_and_the_others_go_on(tmp_path: Path) -> None:
    summaries = play_in_lanes(suite_of("task", "bug", "c"), lanes_of(1, "fail", tmp_path), Notes())
    assert [s.status for s in summaries] == ["failed", "failed", "win"]
    assert summaries[0].reason == "no Model"
    assert "ZeroDivisionError: the cause" in summaries[1].reason
    assert "Traceback" in Path(summaries[1].reason.rpartition("details in ")[2]).read_text()


def test_a_lost_archive_ends_the_suite(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="the disk is full"):
        play_in_lanes(suite_of("archive", "b"), lanes_of(1, "fail", tmp_path), Notes())


def test_after_a_lost_model_no_run_begins(tmp_path: Path) -> None:
    notes = Notes()
    summaries = play_in_lanes(suite_of("a", "fault", "c"), lanes_of(1, "fail", tmp_path), notes)
    assert [s.fault for s in summaries] == ["", "no answer"]
    assert notes.notes[-1] == "the suite stops here: no answer"


def test_an_interrupt_ends_all_lanes_and_what_they_play(tmp_path: Path) -> None:
    def press_ctrl_c(summary: RunSummary, left: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="1 of 3 runs are done"):
        play_in_lanes(suite_of("a", "b", "c"), lanes_of(2, "wait", tmp_path), Notes(), press_ctrl_c)
    assert (tmp_path / "b.interrupted").exists()
    assert not (tmp_path / "logs").exists()


def test_lanes_write_into_one_new_archive(tmp_path: Path) -> None:
    names = [f"t{n}" for n in range(12)]
    summaries = play_in_lanes(suite_of(*names), lanes_of(4, "write", tmp_path), Notes())
    assert [s.status for s in summaries] == ["win"] * 12


@pytest.mark.parametrize("count", [1, 2, 3, 1000])
def test_shares_of_the_processors_are_even(count: int) -> None:
    shares = split_cores(count)
    assert len(shares) == count
    assert all(shares)
    assert set().union(*shares) <= set(affinity())
