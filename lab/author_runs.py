"""Runs of the search with a simulated author on landscapes, task after task over one archive.

In: landscapes, the author's library, settings, a seed. Out: a `Reached` for each task, in order. The search, the agents, prompts,
knowledge, lessons, archive, meter and network client are those of a real run; the compiler and the judge are recorded, and the
model is an HTTP server on loopback.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import benchmarks_on_path  # noqa: F401
from landscape_flat import facts_of
from simulated_author import Author, Library

from warpsmith.agents.base import Attempt
from warpsmith.archive.store import Archive
from warpsmith.config import Config
from warpsmith.executors.landscape import LandscapeExecutor
from warpsmith.executors.landscape_data import Landscape
from warpsmith.llm.chat import Chat
from warpsmith.llm.scripted_server import ScriptedServer
from warpsmith.llm.setup import open_chats
from warpsmith.pipeline.team import make_memory, make_team
from warpsmith.pipeline.transfer_seeds import ArchiveTransferSeeds
from warpsmith.records import Budget, Build, Candidate, Graph, Region, Result, Role, Unit, content_hash
from warpsmith.search.loop import Search
from warpsmith.search.meter import Meter
from warpsmith.search.methods import make_methods
from warpsmith.targets.task_header import region_header

EVALUATIONS = 150  # of one task at the most; the tokens end a run long before
PATIENCE = 12  # rounds without gain, so that equal cost is spent
WRITERS = ("synthesis", "compile", "correctness")  # agents whose units are a model's


@dataclass
class Reached:
    """Of one run on one task. `best`: true speedup over the best baseline; 1 while nothing is faster."""

    task: str
    place: int  # in the sequence, from 0
    tokens: int = 0
    best: float = 1.0
    steps: list[tuple[int, float]] = field(default_factory=list)  # tokens spent → best so far, where it rose
    units: int = 0  # judged that the author wrote or mended
    failed: int = 0  # of these
    first_failed: bool = False  # the very first one
    evaluations: int = 0
    exchanges: int = 0
    missing: int = 0
    lessons: int = 0  # questions that were told one

    def tokens_to(self, speedup: float) -> int | None:
        return next((tokens for tokens, best in self.steps if best >= speedup), None)


class AuthorExecutor(LandscapeExecutor):
    """Candidates with a mistake in them fail as recorded."""

    def __init__(self, landscape: Landscape, library: Library, seed: int) -> None:
        super().__init__(landscape, seed)
        self.library = library

    def _make_result(self, candidate: Candidate, samples: int) -> Result:
        for unit in candidate.compiled:
            failure = self.library.failure(self.landscape.header.task.name, unit)
            if failure is not None:
                self.asked.append(float("inf"))
                return failure.result(candidate, unit, self.landscape.header.environment.id)
        return super()._make_result(candidate, samples)


class HeadersOnly:
    """A target that says what a unit must look like, and builds nothing."""

    name, language = "cpu", "c++"

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def header(self, graph: Graph, region: Region) -> str:
        return region_header(graph, region, self.threads)

    def build(self, unit: Unit, graph: Graph, variant: str) -> Build:
        raise NotImplementedError


def settings(folder: Path, base_url: str, **changes: Any) -> Config:
    """One question at a time, so that a run is the same each time; the built-in rules split the rounds."""
    given: dict[str, Any] = {
        "archive": folder / "archive.db", "cache": folder, "model": "openai:simulated-author", "base_url": base_url,
        "orchestrator": "expert", "price": "1/2", "model_concurrency": 1, "patience": PATIENCE, "near_limit": 1e9,
        "worth": 1e-9,
    }  # fmt: skip
    return Config(**{**given, **changes})


def sequence(
    landscapes: Sequence[Landscape], library: Library, folder: Path, seed: int, tokens: int, **changes: Any
) -> Iterator[Reached]:
    """The tasks in an order drawn by the seed, over one archive in `folder`."""
    order = random.Random(f"order {seed}").sample(landscapes, len(landscapes))
    archive = Archive(folder / "archive.db")
    for place, landscape in enumerate(order):
        author = Author(library, landscape.header.task.name, seed)
        with ScriptedServer(author) as server:
            config = settings(folder, server.base_url, **changes)
            yield one(landscape, library, archive, config, seed, tokens, place)


def one(
    landscape: Landscape, library: Library, archive: Archive, config: Config, seed: int, tokens: int, place: int
) -> Reached:  # fmt: skip
    task, header = landscape.header.task, landscape.header
    run_id = content_hash(["author", seed, place])[:12]
    archive.add_task(task)
    archive.begin_run(run_id, task, "cpu", seed, {"place": place}, header.environment)
    meter = Meter(Budget(evaluations=EVALUATIONS, seconds=None, tokens=tokens))
    executor = AuthorExecutor(landscape, library, seed)
    reached = Reached(task.name, place)
    with open_chats(config, meter, archive, run_id, seed) as chats:
        run(landscape, archive, config, run_id, seed, meter, executor, chats, reached)
    exchanges = archive.exchanges(run_id)
    reached.tokens, reached.evaluations, reached.missing = meter.tokens, meter.evaluations, executor.missing
    reached.exchanges = len(exchanges)
    reached.lessons = sum("What ended it:" in e.prompt for e in exchanges)
    return reached


def run(
    landscape: Landscape, archive: Archive, config: Config, run_id: str, seed: int, meter: Meter,
    executor: AuthorExecutor, chats: Mapping[Role, Chat], reached: Reached,
) -> None:  # fmt: skip
    header, task = landscape.header, landscape.header.task
    target = HeadersOnly(header.environment.threads)
    memory = make_memory(config, archive, run_id, task, "cpu")  # type: ignore[arg-type]

    def keep(attempt: Attempt) -> None:
        archive.add_result(run_id, attempt.candidate, attempt.result, attempt.hypothesis)
        before = max((a.speedup for a in search.attempts if a is not attempt), default=0.0)
        memory.observe(attempt, before)
        note(reached, attempt, landscape.baseline.median_us / executor.asked[-1], meter.tokens)

    transfer_seeds = ArchiveTransferSeeds(
        archive, "cpu", before=archive.run(run_id).started_at, task_id=task.id
    )
    search = Search(
        task, "cpu", facts_of(landscape), header.limit, make_team(config, chats, task, target, memory), executor,  # type: ignore[arg-type]
        meter, keep, seed=seed, methods=make_methods(config, transfer_seeds),
    )  # fmt: skip
    search.run()


def note(reached: Reached, attempt: Attempt, true: float, tokens: int) -> None:
    """`true`: the candidate's speedup without noise; 0 for one that failed."""
    if attempt.candidate.lineage.agent in WRITERS:
        reached.first_failed |= reached.units == 0 and attempt.speedup <= 0
        reached.units += 1
        reached.failed += attempt.speedup <= 0
    if true > reached.best:
        reached.best = true
        reached.steps.append((tokens, true))
