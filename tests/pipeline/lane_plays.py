"""What lanes play in tests instead of a search: functions of a path, a seed, an observer and settings."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from warpsmith.archive import Archive
from warpsmith.errors import ArchiveError, TaskError
from warpsmith.machine import affinity
from warpsmith.progress import Observer
from warpsmith.records import RunSummary
from warpsmith.testing import chain_task

POLL_S = 0.01


def win(path: str, seed: int | None, observer: Observer, settings: dict[str, Any]) -> RunSummary:
    """Win at once; the id says which process, where and on which GPU."""
    observer.stage(f"playing {path}")
    parts = (os.getpid(), os.getcwd(), len(affinity()), os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    summary = RunSummary(
        run_id="|".join(map(str, parts)), task=Path(path).stem, target="cuda", status="win", seed=seed or 0
    )
    observer.finish(summary)
    return summary


def meet(path: str, seed: int | None, observer: Observer, settings: dict[str, Any]) -> RunSummary:
    """Wait until as many processes as `settings` say have been here, then end in the reverse of the tasks' order."""
    folder = Path(settings["folder"])
    (folder / str(os.getpid())).touch()
    while len([p for p in folder.iterdir() if p.name.isdigit()]) < settings["lanes"]:
        time.sleep(POLL_S)
    later = folder / f"{chr(ord(Path(path).stem) + 1)}.done"
    while not later.exists() and Path(path).stem != settings["last"]:
        time.sleep(POLL_S)
    (folder / f"{Path(path).stem}.done").touch()
    return win(path, seed, observer, settings)


def die(path: str, seed: int | None, observer: Observer, settings: dict[str, Any]) -> RunSummary:
    """Kill the process that plays `b` as often as the settings say."""
    mark = Path(settings["folder"]) / f"{os.getpid()}.died"
    if Path(path).stem == "b" and len(list(mark.parent.glob("*.died"))) < settings["deaths"]:
        mark.touch()
        print("last words", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return win(path, seed, observer, settings)


def fail(path: str, seed: int | None, observer: Observer, settings: dict[str, Any]) -> RunSummary:
    """Fail as a task, a bug or an archive does, by the path's name; `fault` is a lost model."""
    match Path(path).stem:
        case "task":
            raise TaskError("no Model")
        case "bug":
            raise ZeroDivisionError("the cause")
        case "archive":
            raise ArchiveError("the disk is full")
        case "fault":
            return win(path, seed, observer, settings).model_copy(update={"fault": "no answer"})
    return win(path, seed, observer, settings)


def wait(path: str, seed: int | None, observer: Observer, settings: dict[str, Any]) -> RunSummary:
    """Win on `a`; else wait for an interrupt, and leave a file when it comes."""
    folder = Path(settings["folder"])
    if Path(path).stem == "a":
        while not (folder / "b.waits").exists():
            time.sleep(POLL_S)
        return win(path, seed, observer, settings)
    try:
        (folder / f"{Path(path).stem}.waits").touch()
        while True:
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        (folder / f"{Path(path).stem}.interrupted").touch()
        raise


def write(path: str, seed: int | None, observer: Observer, settings: dict[str, Any]) -> RunSummary:
    """Write a run into the archive."""
    archive, task = Archive(Path(settings["folder"]) / "archive.db"), chain_task()
    archive.add_task(task.model_copy(update={"name": Path(path).stem}))
    archive.close()
    return win(path, seed, observer, settings)
