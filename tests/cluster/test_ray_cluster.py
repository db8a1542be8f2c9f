"""A suite on a real Ray cluster of four nodes on this machine; what workers play are stand-ins (`cluster_plays.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_ray import Notes
from test_driver import list_winners, speedups

pytest.importorskip("ray")

import ray
from local_ray import start_cluster
from ray.cluster_utils import Cluster

from warpsmith.archive.store import Archive
from warpsmith.cluster.settings import Playing, RaySettings
from warpsmith.cluster.suite_ray import play_on_ray
from warpsmith.errors import UsageError
from warpsmith.pipeline.suite import Suite

TASKS = "abcdef"


@pytest.fixture(scope="module")
def cluster(helpers_can_be_imported: None) -> Iterator[tuple[Cluster, list[Any]]]:
    with start_cluster(4) as (whole, nodes):
        yield whole, nodes


@pytest.mark.alone  # thirty processes of Ray and torch start: beside other tests that takes minutes
def test_a_node_that_is_lost_within_a_run_loses_nothing_that_was_judged(
    cluster: tuple[Cluster, list[Any]], tmp_path: Path
) -> None:
    whole, nodes = cluster
    for name in TASKS:
        (tmp_path / f"{name}.py").write_text(f"# task {name}\n")
    (tmp_path / "hold").touch()
    config = {"archive": str(tmp_path / "archive.db"), "cache": str(tmp_path / "cache"), "near_limit": 1e9}
    fields = {
        "target": "cpu", "budget": {"evaluations": 6, "seconds": None}, "config": config,
        "folder": str(tmp_path), "confirm": "cluster_plays:confirm",
    }  # fmt: skip
    playing = Playing("cluster_plays:hold_in_search", fields, "cpu", tmp_path / "logs", tmp_path / "cache")
    lost: list[str] = []

    class Removing(Notes):
        """Removes a node as soon as a snapshot has what was judged there, and lets the others go on: how many they are by then does
        not matter, for a busy machine may lose one by itself.
        """

        def look(self) -> bool:
            counts = {p.name.split(".")[1]: p for p in tmp_path.glob("judged.*") if p.read_text() == "3"}
            for path in (tmp_path / "cache" / "ray").glob("*.jsonl"):
                text = path.read_text()
                task = next((name for name in counts if f'"task_name":"{name}"' in text), None)
                if not lost and task is not None and text.count('{"kind":"result"') == 3:
                    name = counts[task].name.split(".")[2]
                    node = next(n for n in nodes if n.node_id.startswith(name.rpartition("-")[2]))
                    lost.append(name)
                    whole.remove_node(node)
                    (tmp_path / "hold").unlink()
            return False

    notes, archive = Removing(), Archive(tmp_path / "archive.db")
    settings = RaySettings(
        whole.address, worker="cluster_plays:StandInWorker", one_a_machine=False, snapshot_s=0.5
    )
    suite = Suite([(name, tmp_path / f"{name}.py") for name in TASKS], "cpu", seed=3)
    summaries = play_on_ray(suite, playing, settings, archive, notes, is_stopped=notes.look)
    ends = [(s.task, s.status) for s in summaries]
    assert ends == [(name, "win") for name in TASKS], notes.notes
    assert list_winners(archive) == pytest.approx(speedups(summaries))
    (node,) = lost
    assert f"{node} is lost with its node" in notes
    task = next(p.name.split(".")[1] for p in tmp_path.glob(f"judged.*.{node}"))
    entries = archive.run_entries(next(s.run_id for s in summaries if s.task == task))
    again = [int(p.read_text()) for p in tmp_path.glob(f"judged.{task}.*") if node not in p.name]
    searched = [e for e in entries if e.kind == "search"]
    assert f"resuming run {summaries[TASKS.index(task)].run_id}" in notes
    assert again == [len(searched) - 3]  # what the lost node had judged was not judged again


def test_an_address_without_a_cluster_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(
        ray, "init", lambda **_: (_ for _ in ()).throw(ConnectionError("could not find any\nx"))
    )
    playing = Playing("cluster_plays:play", {}, "cpu", tmp_path, tmp_path)
    with pytest.raises(UsageError, match=r"no Ray cluster at auto: could not find any; `ray start --head`"):
        play_on_ray(Suite([]), playing, RaySettings("auto"), Archive(tmp_path / "a.db"), Notes())
