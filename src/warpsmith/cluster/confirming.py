"""A winner judged again on another worker, as a bundle: `confirm_lane_run` is what a lane's process does there.

In: a folder with a packed bundle of the task and the winner. Out: the folder that `bundle run` writes, whose rows the worker sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..bundles.bundle import read_bundle
from ..bundles.manifest import read_key
from ..bundles.running import run_bundle
from ..config import Config
from ..progress import Observer
from ..records import RunSummary

BUNDLE, RESULTS = "bundle.tar.gz", "results"
CONFIRM = "warpsmith.cluster.confirming:confirm_lane_run"


def confirm_lane_run(
    path: str, seed: int | None, observer: Observer, settings: Mapping[str, Any]
) -> RunSummary:
    """Judge the bundle in the folder `path`. The summary says only that it was done: what counts are the rows."""
    folder = Path(path)
    key = read_key(Path(settings["key_file"]) if settings["key_file"] else None)
    bundle = read_bundle(folder / BUNDLE, key)
    config = Config.model_validate(settings["config"])
    run_bundle(bundle, folder / RESULTS, config=config, observer=observer, key=key)
    name = next(iter(bundle.tasks.values())).name
    return RunSummary(run_id="", task=name, target=bundle.manifest.target, status="no-win", reason="judged")
