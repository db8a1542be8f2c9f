"""A Ray without processes: actors are objects of this process, a stream yields when it is asked. One call after the other, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cluster_plays import StandInWorker

from warpsmith.archive.store import Archive
from warpsmith.cluster import members as members_module
from warpsmith.cluster.driver import Driver
from warpsmith.cluster.members import Members
from warpsmith.cluster.messages import Setup
from warpsmith.cluster.ray_engine import Slot
from warpsmith.cluster.settings import Playing, RaySettings
from warpsmith.cluster.suite_ray import make_setup
from warpsmith.pipeline.lane_client import LaneClient, Line
from warpsmith.pipeline.suite import Finished, Suite
from warpsmith.progress import PlainObserver, SilentObserver
from warpsmith.records import RunSummary


class RayError(Exception): ...


class RayTaskError(RayError): ...


class Exceptions:
    RayError, RayTaskError = RayError, RayTaskError


class Call:
    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call


class Method:
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def remote(self, *args: Any) -> Any:
        """A stream for a generator, else a reference."""
        if self._function.__name__ in ("play", "confirm"):
            return self._function(*args)
        return Call(lambda: self._function(*args))


class Actor:
    def __init__(self, worker: Any) -> None:
        self._worker = worker

    def __getattr__(self, name: str) -> Method:
        return Method(getattr(self._worker, name))


class FakeRay:
    """`alive`: ids of the nodes."""

    exceptions = Exceptions

    def __init__(self, nodes: int) -> None:
        self.alive = [f"n{number}" for number in range(nodes)]
        self._turn = 0

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"NodeID": i, "NodeManagerHostname": "host", "Alive": True, "Resources": {"CPU": 1.0}}
            for i in self.alive
        ]

    def wait(self, sources: list[Any], num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        """What workers say of themselves comes first; of streams each has its turn."""
        if isinstance(sources[0], Call) and num_returns == len(sources):
            for source in sources:
                source.call()
        if calls := [source for source in sources if isinstance(source, Call)]:
            return calls[:1], []
        self._turn += 1
        return [sources[self._turn % len(sources)]], []

    def get(self, reference: Any, timeout: float | None = None) -> Any:
        return reference.call() if isinstance(reference, Call) else reference

    def kill(self, actor: Any, no_restart: bool) -> None: ...


class InProcess:
    """A lane that plays in this process."""

    process_id = 1

    def __init__(self, play: Callable[..., RunSummary], settings: Mapping[str, Any]) -> None:
        self._play, self._settings = play, settings

    def play(self, run: Any, tell: Callable[[Any], None]) -> RunSummary:
        class Lines(SilentObserver):
            def note(self, text: str) -> None:
                tell(Line(text))

        return self._play(str(run.path), run.seed, Lines(), self._settings)

    def signal(self, number: int) -> None: ...

    def close(self) -> None: ...


class Inline:
    """Works at once: what stand-ins replace is this process's, so no two may work side by side."""

    def submit(self, work: Callable[..., Any], *args: Any) -> None:
        work(*args)


class InProcessWorker(StandInWorker):
    """A worker whose lane is this process."""

    def __init__(self, setup: str) -> None:
        from unittest import mock

        with mock.patch("os.sched_setaffinity"):
            super().__init__(setup)
        self._thread = Inline()  # type: ignore[assignment]

    def _lane(self, play: str, settings: dict[str, object]) -> LaneClient:
        import pkgutil

        return InProcess(pkgutil.resolve_name(play), settings)  # type: ignore[return-value]


class Notes(SilentObserver):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.over: list[RunSummary] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def finish(self, summary: RunSummary) -> None:
        self.over.append(summary)

    def __contains__(self, text: str) -> bool:
        return any(text in note for note in self.notes)


class Stage:
    """A suite of the tasks a, b, … on fake nodes. `workers`: node id → class of its worker, else `InProcessWorker`."""

    def __init__(self, folder: Path, monkeypatch: Any, nodes: int = 2, tasks: str = "abcd") -> None:
        self.folder, self.ray, self.notes = folder, FakeRay(nodes), Notes()
        self.workers: dict[str, type[Any]] = {}
        self.url = ""  # of an archive that is no file
        self.archive = Archive(folder / "archive.db")
        for name in tasks:
            (folder / f"{name}.py").write_text(f"# task {name}\n")
        self.suite = Suite([(n, folder / f"{n}.py") for n in tasks], "cpu", seed=3)
        monkeypatch.setattr(members_module, "REFRESH_S", 0.0)
        monkeypatch.setattr(members_module, "start_actor", self._start)

    def _start(self, ray: Any, slot: Slot, setup: Setup, settings: RaySettings) -> Actor:
        return Actor(self.workers.get(slot.node_id, InProcessWorker)(setup.model_dump_json()))

    def make_playing(self, play: str = "play", sends: bool = True, **settings: Any) -> Playing:
        config = {
            "archive": self.url or str(self.archive.name), "cache": str(self.folder / "cache"), "near_limit": 1e9,
            "transplant": False, "authors": False, "lessons": False,
        }  # fmt: skip
        fields = {
            "target": "cpu", "budget": {"evaluations": 6, "seconds": None}, "config": config,
            "folder": str(self.folder), "confirm": "cluster_plays:confirm", **settings,
        }  # fmt: skip
        return Playing(
            f"cluster_plays:{play}", fields, "cpu", self.folder / "logs", self.folder / "cache", sends
        )

    def run(
        self, playing: Playing | None = None, finished: Finished | None = None, **settings: Any
    ) -> list[RunSummary]:
        usual = {"one_a_machine": False, "join_s": 0.2, "retry_s": 0.01}
        cluster = RaySettings("auto", **(usual | settings))
        playing = playing or self.make_playing()
        members = Members(self.ray, make_setup(playing, cluster), cluster, self.notes)
        driver = Driver(
            self.ray, self.suite, playing, cluster, members, self.archive, self.notes, finished, lambda: False
        )  # fmt: skip
        try:
            return driver.play()
        finally:
            members.close()


def play_alone(folder: Path, stage: Stage) -> list[RunSummary]:
    """The same suite as one machine plays it, into an archive of its own."""
    from cluster_plays import play

    settings = dict(stage.make_playing().settings)
    settings["config"] = {**settings["config"], "archive": str(folder / "alone.db")}
    settings |= {"node": "alone"}
    return [play(str(run.path), run.seed, PlainObserver(), settings) for run in stage.suite.plan()]


def name_winners(summaries: list[RunSummary]) -> list[tuple[str, str, str]]:
    """(task, status, techniques and speedup of the best) of each. Of a candidate's lineage, which is in its id, nothing is said: it
    tells which other tasks the worker had played.
    """
    return [
        (s.task, s.status, f"{s.best.label} {s.best.speedup.median:.4f}" if s.best else "") for s in summaries
    ]


def read_origins(archive: Archive) -> Iterator[tuple[str, str]]:
    for run in archive.runs():
        yield run.task_name, run.origin
