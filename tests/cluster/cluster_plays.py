"""What workers play in tests: real searches of the expert into a real archive, judged by a formula in place of a clock."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import scripted_run

from warpsmith import api
from warpsmith.archive.store import now
from warpsmith.bundles import running
from warpsmith.cluster.confirming import confirm_lane_run
from warpsmith.cluster.node_worker import NodeWorker
from warpsmith.judge import judge
from warpsmith.judge.device import eviction
from warpsmith.judge.device.memory import CHECKS
from warpsmith.pipeline import run as run_module
from warpsmith.progress import Observer
from warpsmith.records import (
    BaselineTiming,
    Candidate,
    Environment,
    Result,
    RunSummary,
    Task,
    TaskSource,
)
from warpsmith.search.confirmation import Confirmer
from warpsmith.testing import chain_task

POLL_S = 0.02
EVICTION_BYTES = 64 << 20


def rate(candidate: Candidate) -> float:
    """The speedup of a candidate: the same on every machine."""
    return 1.2 + int(candidate.content_key[:4], 16) / 2**16


class EvenJudge(scripted_run.StubJudge):
    """Measures the same of the task in every process, so that a search goes the same way everywhere."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()
        self.baselines = {"eager": BaselineTiming(name="eager", ok=True, median_us=200.0)}
        self.limit = self.limit.model_copy(update={"bytes_per_second": 1e9})
        self.node_us = {"n0": 260.0, "n1": 40.0}


def load(spec: str, *_: Any) -> Task:
    source = TaskSource(kind="kernelbench", path=spec, text=Path(spec).read_text())
    return chain_task().model_copy(update={"name": Path(spec).stem, "source": source})


PLACE = scripted_run._placed


def place_now(result: Result, candidate: Candidate) -> Result:
    """As the stand-in's, with the time."""
    return PLACE(result, candidate).model_copy(update={"judged_at": now()})


@contextmanager
def stand_ins(factor: float = 1.0) -> Iterator[None]:
    """Loading, building and judging are stand-ins; `factor` multiplies each speedup that is measured."""
    with (
        mock.patch.object(scripted_run, "speed", lambda c: factor * rate(c)),
        mock.patch.object(scripted_run, "StubJudge", EvenJudge),
        mock.patch.object(scripted_run, "_placed", place_now),
        mock.patch.object(api, "make_target", return_value=scripted_run.StubTarget()),
        mock.patch.object(api, "_load", load),
        mock.patch.object(run_module, "describe", return_value=scripted_run.HERE),
        mock.patch.multiple(
            running, Judge=EvenJudge, LocalExecutor=scripted_run.StubExecutor,
            find_target=lambda *_: scripted_run.StubTarget(), describe=lambda *_: scripted_run.HERE,
        ),
        scripted_run.stubs(),
    ):  # fmt: skip
        yield


def play(path: str, seed: int | None, observer: Observer, settings: Mapping[str, Any]) -> RunSummary:
    """Play a run; where the folder of the settings has a file `hold.TASK` it begins when that is gone."""
    folder, task = Path(settings["folder"]), Path(path).stem
    (folder / f"{task}.{settings['node']}").touch()
    while (folder / f"hold.{task}").exists():
        time.sleep(POLL_S)
    factor = settings.get("forge", {}).get(settings["node"], 1.0)
    with stand_ins(factor):
        return api.play_lane_run(path, seed, observer, settings)


def confirm(path: str, seed: int | None, observer: Observer, settings: Mapping[str, Any]) -> RunSummary:
    with stand_ins():
        return confirm_lane_run(path, seed, observer, settings)


def hold_in_search(
    path: str, seed: int | None, observer: Observer, settings: Mapping[str, Any]
) -> RunSummary:
    """As `play`, but after three results the search waits while there is a file `hold`; `judged.NODE` counts what was judged."""
    folder, judged = Path(settings["folder"]), 0
    run = scripted_run.StubExecutor.run

    def judge_slowly(self: Any, candidates: Any) -> Iterator[Result]:
        nonlocal judged
        for result in run(self, candidates):
            judged += 1
            (folder / f"judged.{Path(path).stem}.{settings['node']}").write_text(str(judged))
            yield result
            while judged >= 3 and (folder / "hold").exists():
                time.sleep(POLL_S)

    with mock.patch.object(scripted_run.StubExecutor, "run", judge_slowly):
        return play(path, seed, observer, settings)


@contextmanager
def judge_briefly() -> Iterator[None]:
    """The real judge, whose confirmations are short and wait for no quiet machine, and which evicts little: how narrow an interval
    is does not matter.
    """
    with (
        mock.patch.object(eviction, "FLUSH_MOST", EVICTION_BYTES),
        mock.patch.object(judge, "CONFIRM_ROUNDS", CHECKS),
        mock.patch.object(Confirmer, "_wait", return_value=False),
    ):
        yield


def play_briefly(path: str, seed: int | None, observer: Observer, settings: Mapping[str, Any]) -> RunSummary:
    with judge_briefly():
        return api.play_lane_run(path, seed, observer, settings)


def confirm_briefly(
    path: str, seed: int | None, observer: Observer, settings: Mapping[str, Any]
) -> RunSummary:
    with judge_briefly():
        return confirm_lane_run(path, seed, observer, settings)


class StandInWorker(NodeWorker):
    """Says that it is the machine on which stand-ins judge."""

    def describe(self) -> Environment:
        return scripted_run.HERE
