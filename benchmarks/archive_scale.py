"""How long an archive of many results takes to answer: stepping stones by signature, kernels by text, one run's report.

    python benchmarks/archive_scale.py [--results 100000] [--archive FILE|URL] [--out results/cpu/archive_scale.json]

Fills an empty archive with made-up results whose sizes are those of real ones (a result 4 to 5 kB, a unit's source about
6 kB, 60 results a run, 250 tasks, a thousand signatures of very different frequency), then asks each question for many
signatures, texts and runs, and prints p50 and p95. Each time is that of the whole call, records validated. Without
`--archive` the archive is a file in a temporary folder; an archive that has results already is asked as it is. Limits asked
for: 50 ms for a retrieval, 2 s for a report.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from warpsmith.archive import Archive
from warpsmith.archive import schema as s
from warpsmith.archive.exemplars import find_sound_entries
from warpsmith.archive.rows import keep, keep_candidate, keep_environment, keep_task, result_columns
from warpsmith.archive.store import config_key
from warpsmith.machine import describe
from warpsmith.records import (
    Candidate,
    Check,
    Environment,
    Lineage,
    Ratio,
    Region,
    Result,
    Task,
    Timing,
    Tunable,
    Unit,
    Verdict,
)
from warpsmith.report import render
from warpsmith.testing import chain_task

TASKS, SIGNATURES, WORDS, A_RUN = 250, 1000, 3000, 60
LIMITS = {"report of one run": 2.0}  # seconds; of the others:
RETRIEVAL = 0.050
SYLLABLES = (
    "acc",
    "blk",
    "col",
    "dot",
    "exp",
    "fma",
    "gat",
    "hal",
    "idx",
    "lan",
    "max",
    "nrm",
    "off",
    "par",
    "red",
    "row",
)
OPS = (
    "add",
    "mul",
    "relu",
    "_softmax",
    "mean",
    "sum",
    "exp",
    "rsqrt",
    "sub",
    "div",
    "amax",
    "sigmoid",
    "tanh",
    "mm",
)
STATUSES = ("ok",) * 14 + ("incorrect",) * 3 + ("build-failed",) * 2 + ("refused",)


class World:
    """Everything made up, from one seed."""

    def __init__(self, seed: int, tasks: int = TASKS) -> None:
        self.chance = random.Random(seed)
        self.words = [self._word() for _ in range(WORDS)]
        self.signatures = [self._signature(n) for n in range(SIGNATURES)]
        chain = chain_task()
        self.tasks: list[Task] = [chain.model_copy(update={"name": f"task_{n}"}) for n in range(tasks)]
        self.environment: Environment = describe()

    def _word(self) -> str:
        return "_".join(self.chance.choices(SYLLABLES, k=self.chance.randint(1, 3)))

    def _signature(self, number: int) -> str:
        ops = "+".join(f"aten.{op}.default" for op in self.chance.choices(OPS, k=self.chance.randint(1, 8)))
        return f"{ops}|f32[r{number % 4 + 1}]|{number}"

    def often(self, items: list[Any]) -> Any:
        """Few of them very often, most of them seldom: words of a language."""
        return items[min(int(self.chance.paretovariate(0.6)) - 1, len(items) - 1)]

    def uneven(self, items: list[Any]) -> Any:
        """The most frequent of a thousand has 3% of all, as signatures of units had in real archives."""
        return items[int(len(items) * self.chance.random() ** 2)]

    def candidate(self, task: Task, number: int) -> Candidate:
        lines = (
            f"    float {self.often(self.words)} = {self.often(self.words)} * {i}.0f;" for i in range(160)
        )
        region = Region(
            nodes=("a", "b"), inputs=("x",), outputs=("b",), signature=self.uneven(self.signatures)
        )
        unit = Unit(
            region=region, language="c++", family=self.chance.choice(("elementwise", "softmax", "normalise")),
            source=f"// unit {number}\nstatic void unit() {{\n" + "\n".join(lines) + "\n}\n",
            tunables=(Tunable(name="UNROLL", domain=(1, 2, 4), value=2),), technique=self.often(self.words),
        )  # fmt: skip
        lineage = Lineage(reason="made up", branch=unit.technique)
        return Candidate(task_id=task.id, target="cpu", units=(unit,), lineage=lineage)

    def result(self, candidate: Candidate) -> Result:
        status = self.chance.choice(STATUSES)
        common: dict[str, Any] = {
            "candidate_id": candidate.id, "content_key": candidate.content_key, "task_id": candidate.task_id,
            "target": "cpu", "status": status, "environment": self.environment.id,
            "judged_at": f"2026-01-01T00:00:00.{self.chance.randrange(10**6):06d}+00:00",
        }  # fmt: skip
        checks = tuple(
            Check(variant="main", family=f"family-{n}", where="whole", ok=True, error=n / 40, ulp=n)
            for n in range(32)
        )
        if status != "ok":
            return Result(**common, reason="made up to fail at [0, 3]" * 20)
        speedup = self.chance.lognormvariate(0.2, 0.5)
        ratios = tuple(
            Ratio(baseline=b, median=speedup * f, low=speedup * f * 0.97, high=speedup * f * 1.03)
            for b, f in (("eager", 1.4), ("compile", 1.0), ("compile-max-autotune", 1.1))
        )
        timing = Timing(
            median_us=100 / speedup, low_us=95 / speedup, high_us=105 / speedup, cache="cold", samples=30,
            ratios=ratios, limit_share=0.5, confirmed=self.chance.random() < 0.05,
        )  # fmt: skip
        return Result(
            **common, verdict=Verdict(correct=True, checks=checks, labels=("kernel",)), timing=timing
        )

    def fill(self, archive: Archive, results: int) -> None:
        """A run a transaction."""
        for first in range(0, results, A_RUN):
            task, run_id = self.uneven(self.tasks), f"{first:012x}"
            with archive.database.transaction(write=True) as connection:
                keep_task(connection, task)
                keep_environment(connection, self.environment)
                keep(
                    connection, s.runs, id=run_id, task_id=task.id, target="cpu", seed=first, config="{}",
                    config_key=config_key({}), environment_id=self.environment.id, owner="", baselines="[]",
                    started_at=f"2026-01-01T00:00:00.{first:07d}+00:00", finished_at="", limit_record="",
                    admission="", summary="", origin="local",
                )  # fmt: skip
                for number in range(first, min(first + A_RUN, results)):
                    candidate = self.candidate(task, number)
                    keep_candidate(connection, candidate)
                    result = self.result(candidate)
                    columns = {"number": number + 1, "id": result.id, **result_columns(result, "local")}
                    connection.execute(s.results.insert().values(**columns))
                    keep(
                        connection, s.run_results, run_id=run_id, number=number - first + 1, kind="search",
                        result_number=number + 1, elapsed=float(number - first),
                    )  # fmt: skip

    def questions(self, archive: Archive) -> Iterator[tuple[str, Callable[[], object]]]:
        """What is asked once: the frequent signatures and words as often as the seldom ones."""
        common, signature = self.signatures[0], self.chance.choice(self.signatures)
        words = " ".join([self.chance.choice(self.words), self.often(self.words)])
        run_id = self.chance.choice(self.runs)
        yield "stones by signature", lambda: find_sound_entries(archive, signature, "cpu", before="2027")
        yield (
            "stones by the most frequent signature",
            lambda: find_sound_entries(archive, common, "cpu", before="2027"),
        )
        yield "kernels by text", lambda: archive.find(words, "cpu")
        yield "report of one run", lambda: render(archive, run_id, "markdown")

    def measure(self, archive: Archive, rounds: int) -> dict[str, list[float]]:
        self.runs = [run.run_id for run in archive.runs()]
        seconds: dict[str, list[float]] = {}
        for _ in range(rounds):
            for name, ask in self.questions(archive):
                start = time.perf_counter()
                ask()
                seconds.setdefault(name, []).append(time.perf_counter() - start)
        return seconds


def summary(seconds: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """Milliseconds; the limit is that of p95."""
    found = {}
    for name, times in seconds.items():
        ordered = sorted(times)
        at = {p: ordered[min(int(len(ordered) * p / 100), len(ordered) - 1)] * 1e3 for p in (50, 95)}
        limit = LIMITS.get(name, RETRIEVAL) * 1e3
        found[name] = {"p50_ms": round(at[50], 2), "p95_ms": round(at[95], 2), "limit_ms": limit}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--archive", help="a file, or postgresql://… of an empty database")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        archive, world = Archive(given.archive or Path(folder) / "scale.db"), World(seed=1)
        start = time.perf_counter()
        if not archive.counts()["results"]:
            world.fill(archive, given.results)
        filled = time.perf_counter() - start
        counts = archive.counts()
        print(
            f"{archive.database.engine.dialect.name}: {counts['results']} results, filled in {filled:.0f} s"
        )
        found = summary(world.measure(archive, given.rounds))
    for name, row in found.items():
        verdict = "within" if row["p95_ms"] <= row["limit_ms"] else "OVER"
        print(
            f"{name:42} p50 {row['p50_ms']:8.1f} ms   p95 {row['p95_ms']:8.1f} ms   {verdict} {row['limit_ms']:.0f} ms"
        )
    if given.out is not None:
        database = archive.database.engine.dialect.name
        machine = world.environment.model_dump(mode="json")
        record = {
            "database": database,
            "counts": counts,
            "rounds": given.rounds,
            "ms": found,
            "environment": machine,
        }
        given.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
