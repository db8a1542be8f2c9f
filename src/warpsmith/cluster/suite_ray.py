"""A suite on Ray: `play_on_ray` joins or starts the cluster, plays every run, and leaves it.

In: a suite, how a run is played, which cluster, the archive. Out: the same summaries in the same order as from one machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from ..archive.store import Archive
from ..pipeline.suite import Finished, Suite
from ..progress import Observer
from ..records import RunSummary
from .confirming import CONFIRM
from .driver import Driver
from .members import Members
from .messages import Setup
from .ray_engine import join_cluster
from .settings import Playing, RaySettings


def play_on_ray(
    suite: Suite, playing: Playing, settings: RaySettings, archive: Archive, observer: Observer,
    finished: Finished | None = None, is_stopped: Callable[[], bool] = lambda: False,
) -> list[RunSummary]:  # fmt: skip
    """Play every run; summaries are in the order of the suite, `finished` hears of each as it comes.

    Raises UsageError without a cluster, ArchiveError, ModelError, Interrupted; JudgeError when no worker is there for long.
    """
    with join_cluster(settings) as ray:
        members = Members(ray, make_setup(playing, settings), settings, observer)
        driver = Driver(ray, suite, playing, settings, members, archive, observer, finished, is_stopped)
        try:
            return driver.play()
        finally:
            members.close()


def make_setup(playing: Playing, settings: RaySettings) -> Setup:
    """Make what every worker is started with."""
    config = playing.settings.get("config", {})
    return Setup(
        name="", number=0, share=0, shares=1, play=playing.play, confirm=playing.settings.get("confirm", CONFIRM),
        settings=json.dumps(dict(playing.settings)), target=playing.target, folder=os.getcwd(),
        logs=str(playing.logs), cache=str(playing.cache), omp_threads=os.environ.get("OMP_NUM_THREADS", ""),
        compiler=config.get("compiler") or "", sends=playing.sends,
        key_file=str(settings.key_file.absolute()) if settings.key_file is not None else "",
        snapshot_s=settings.snapshot_s,
    )  # fmt: skip
