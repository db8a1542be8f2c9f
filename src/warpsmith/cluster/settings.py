"""`RaySettings` says which Ray cluster plays a suite, and how far its workers are trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOCAL = "local"  # the address that starts a Ray of its own on this machine
NODE_WORKER = "warpsmith.cluster.node_worker:NodeWorker"


@dataclass(frozen=True)
class RaySettings:
    """`address`: "auto", "local", "HOST:PORT" or "ray://HOST:PORT". `trusts`: winners count without a second worker's word; on a
    Ray that is started here they always do, as those of lanes.
    """

    address: str
    lanes: int = 1  # actors on each GPU
    accelerator: str = ""  # as Ray names it: only nodes with it play
    trusts: bool = False
    key_file: Path | None = None  # of the key that seals what workers send; at the same path on each machine
    worker: str = NODE_WORKER  # "module:class" of the actor
    one_a_machine: bool = True  # on a CPU: two nodes of one machine would disturb each other's timings
    snapshot_s: float = 30.0  # between two snapshots of a run
    join_s: float = 120.0  # without any worker, after which the suite gives up
    retry_s: float = 2.0  # before the archive is tried again; doubled each time

    @property
    def starts_here(self) -> bool:
        return self.address == LOCAL


@dataclass(frozen=True)
class Playing:
    """What each worker needs to play: "module:function" of what plays a run (`pipeline.lane.LanePlay`) and its settings as JSON.

    `sends`: whether workers have an archive of their own and send runs; else they write into the suite's by themselves. With
    `raises` among the settings an error of a task is raised and no row of the suite. `tells_finished`: workers are told of finished runs, which they then do not play again.
    """

    play: str
    settings: Mapping[str, Any]
    target: str
    logs: Path
    cache: Path
    sends: bool = True
    tells_finished: bool = True
