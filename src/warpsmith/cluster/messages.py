"""The messages between the driver and its workers: records, which cross as JSON text and are validated on arrival."""

from __future__ import annotations

from typing import Literal

from ..records import Environment, Record, RunSummary


class Setup(Record):
    """What a worker is started with."""

    name: str
    number: int  # from 0, of all workers
    share: int  # its place among the workers of its node, from 0
    shares: int  # workers of its node
    play: str
    confirm: str
    settings: str  # of `play`, as JSON
    target: str
    folder: str  # the driver's working directory
    logs: str
    cache: str
    omp_threads: str  # the driver's OMP_NUM_THREADS; empty: not set
    compiler: str
    sends: bool
    key_file: str
    snapshot_s: float


class Hello(Record):
    """What a worker is."""

    host: str
    environment: Environment


class PlayJob(Record):
    """A run to play. `history`: what the suite knows of it already, as the lines of exports."""

    name: str
    path: str
    text: str  # of the task's file
    seed: int | None
    history: tuple[str, ...] = ()


class Event(Record):
    """What a worker tells of its job. The last one of a job is `played`, `judged`, `error` or `lost`."""

    kind: Literal["line", "owner", "snapshot", "played", "judged", "error", "lost"]
    text: str = ""  # a line; an owner; lines of an export; rows of a bundle's results; what went wrong
    error: str = ""  # the class of an error
    summary: RunSummary | None = None
    mac: str = ""  # seal of `text` by the key, where there is one
    task: str = ""  # the task's path on that machine

    @property
    def is_last(self) -> bool:
        return self.kind in ("played", "judged", "error", "lost")
