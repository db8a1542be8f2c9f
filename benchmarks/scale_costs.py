"""What the driver of a suite on Ray costs, measured on this machine: the first half of `scale_simulation.py`.

The real `Driver` handles events of N workers that are stand-ins, a real run is checked and kept by its real code, and a real Ray is asked which of N
streams has something. Nothing is timed on another machine, and no network is between.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from archive_scale import World

from warpsmith import Config, optimize_task
from warpsmith.archive.store import Archive
from warpsmith.archive.transfer import export_run
from warpsmith.cluster.driver import Driver
from warpsmith.cluster.keeping import RunKeeper
from warpsmith.cluster.members import Member, Members
from warpsmith.cluster.messages import Event, Hello
from warpsmith.cluster.ray_engine import Slot, load_ray
from warpsmith.cluster.settings import Playing, RaySettings
from warpsmith.cluster.shipping import read_arrived
from warpsmith.cluster.suite_ray import make_setup
from warpsmith.machine import describe
from warpsmith.pipeline.suite import PlannedRun, Suite
from warpsmith.progress import SilentObserver
from warpsmith.records import Budget

WORKERS = (8, 64, 256, 1024)
FILLED = 2_000  # results in the archive that runs are kept in
EVENTS = 200


def measure_costs() -> dict[str, Any]:
    """Measure everything; seconds and bytes."""
    with tempfile.TemporaryDirectory() as folder:
        run = measure_run(Path(folder))
    loops = {str(n): round(measure_loop(n), 7) for n in WORKERS}
    return {
        "run": run,
        "loop_s": loops,
        "wait_s": measure_wait(),
        "machine": describe().model_dump(mode="json"),
    }


def take_quickest(call: Callable[[], object], times: int) -> float:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)  # other work on the machine only adds


def measure_run(folder: Path) -> dict[str, Any]:
    """Play a real run of the demo; measure what its arrival costs the driver, with an empty archive and a filled one."""
    task = Path(__file__).parents[1] / "examples" / "softmax.py"
    config = Config(
        archive=folder / "worker.db", cache=folder / "cache", baselines=("eager",), confirm=1, screening="on"
    )  # in two tiers, as on a GPU
    summary = optimize_task(
        str(task), budget=Budget(evaluations=4, seconds=40.0), seed=1, config=config, progress=False
    )
    worker = Archive(config.archive)
    text = export_run(worker, summary.run_id)
    record = worker.run(summary.run_id)
    asked, source = PlannedRun(0, task.stem, task.stem, task, 1, "cpu"), task.read_text()
    archives = {"empty": folder / "empty.db", "filled": folder / "filled.db"}
    for name, path in archives.items():
        archive = Archive(path)
        World(seed=1).fill(archive, FILLED if name == "filled" else 0)
        archive.close()
    kept = {name: measure_keep(path, folder, asked, source, text, record, summary) for name, path in archives.items()}  # fmt: skip
    keeper = RunKeeper(Archive(archives["empty"]), folder / "snapshots", {}, SilentObserver(), 1.0)
    return {
        "results": text.count('{"kind":"result"'),
        "bytes": len(text),
        "read_s": take_quickest(lambda: read_arrived(text, "", asked, source, record.environment), 7),
        "snapshot_s": take_quickest(lambda: keeper.keep_snapshot(asked, source, text), 7),
        "keep_s": kept,
        "filled_with": FILLED,
    }


def measure_keep(
    path: Path, folder: Path, asked: PlannedRun, source: str, text: str, record: Any, summary: Any
) -> float:
    """Keep the run in a copy of the archive, a new copy each time."""
    arrived, copy = read_arrived(text, "", asked, source, record.environment), folder / "copy.db"
    seconds = []
    for _ in range(5):
        for old in folder.glob("copy.db*"):
            old.unlink()
        shutil.copy(path, copy)
        keeper = RunKeeper(Archive(copy), folder / "snapshots", {}, SilentObserver(), 1.0)
        start = time.perf_counter()
        keeper.keep(arrived, summary)
        seconds.append(time.perf_counter() - start)
    return min(seconds)  # other work on the machine only adds


class Told:
    """In place of Ray: each call of `wait` has one line of one worker after the other."""

    exceptions = SimpleNamespace(RayError=OSError, RayTaskError=OSError)

    def __init__(self) -> None:
        self._turn, self._line = 0, Event(kind="line", text="judged 3/60: ok").model_dump_json()

    def wait(self, sources: list[Any], num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        self._turn += 1
        return [sources[self._turn % len(sources)]], []

    def get(self, _: object) -> str:
        return self._line

    def nodes(self) -> list[Any]:
        return []


class Lines:
    """A stream that never ends."""

    def __next__(self) -> int:
        return 0


def measure_loop(workers: int) -> float:
    """Seconds of one turn of the driver's loop, which handles one line, while so many workers play."""
    with tempfile.TemporaryDirectory() as folder:
        tasks = [(str(n), Path(folder) / f"{n}.py") for n in range(workers)]
        for _, path in tasks:
            path.write_text("# a task\n")
        suite, ray, settings = Suite(tasks, "cuda", seed=1), Told(), RaySettings("auto")
        playing = Playing("", {"config": {}}, "cuda", Path(folder), Path(folder))
        members = Members(ray, make_setup(playing, settings), settings, SilentObserver())
        archive, hello = Archive(Path(folder) / "a.db"), Hello(host="h", environment=describe())
        driver = Driver(
            ray, suite, playing, settings, members, archive, SilentObserver(), None, lambda: False
        )
        for run in suite.plan():
            slot = Slot(f"n{run.index // 8}", "h", 16.0, 1.0, run.index % 8, 8)
            members._members[slot.key] = Member(slot, None, hello=hello, job=run, stream=Lines())
        turns: tuple[Callable[[], object], ...] = (
            members.refresh, driver._settle_hopeless, driver._hand_out, driver._hear, lambda: members.alone_s,
        )  # fmt: skip
        start = time.perf_counter()
        for _ in range(EVENTS):
            driver._queue.count_waiting()
            for turn in turns:
                turn()
        return (time.perf_counter() - start) / EVENTS


def measure_wait() -> dict[str, float]:
    """Seconds in which a real Ray says which of N streams has something."""
    ray = load_ray()
    ray.init(
        num_cpus=1, include_dashboard=False, log_to_driver=False, object_store_memory=80 << 20, logging_level="ERROR",
    )  # fmt: skip

    @ray.remote(num_cpus=1, max_concurrency=1)
    class Player:
        def play(self) -> Any:
            while True:
                time.sleep(0.05)
                yield json.dumps("a line")

    try:
        player, seconds = Player.remote(), {}
        first = player.play.remote()
        ray.get(next(first))
        streams = [first, *(player.play.remote() for _ in range(max(WORKERS) - 1))]
        for count in WORKERS:
            seconds[str(count)] = round(
                take_quickest(lambda n=count: ray.wait(streams[:n], num_returns=1, timeout=0.5), 15), 7
            )
            ray.get(next(first))
        return seconds
    finally:
        ray.shutdown()
