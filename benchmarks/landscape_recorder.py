"""One task's landscape: enumerated, measured and written, a row at a time.

In: a task's file and the time there is. Out: rows of a landscape's file. What is there already is not measured again.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import TextIO

from json_lines import known_lines
from landscape_judge import Recorder
from landscape_space import Space, key

from warpsmith import machine
from warpsmith.agents.expert.ideas import Known, ideas
from warpsmith.agents.expert.planner import plans
from warpsmith.agents.expert.steps import FLAG_FOR, FLAGS
from warpsmith.codegen.program import Unsupported
from warpsmith.executors import landscape_data as lands
from warpsmith.executors.landscape_file import VERSION, line
from warpsmith.facts import Facts
from warpsmith.pipeline.summary import facts_from, facts_of, facts_record
from warpsmith.processes.buffers import Scratch
from warpsmith.records import (
    Record,
    Task,
    Unit,
    Variant,
)
from warpsmith.search.tuner import with_values
from warpsmith.targets.cpu import CpuTarget
from warpsmith.targets.cuda import CudaTarget
from warpsmith.targets.target import Target
from warpsmith.tasks.client import TaskHost
from warpsmith.tasks.load import read_source, task_name

SHARES = (
    0.6,
    0.72,
    0.9,
)  # of the time: until plain settings end, until flags, until what is fast was measured again; then wholes
BEST = 3  # settings of a source that are tried with other flags
AGAIN = 4  # further times that what is near the best of its region is measured
NEAR = 1.3  # times the fastest of a region: who may be its best
WHOLES = 12  # candidates timed as deployed
FEWEST = 8  # settings that a source keeps, whatever the time


class Recording:
    """The file, what is in it, and what is still to be measured of one task by `deadline` (monotonic seconds)."""

    def __init__(
        self, file: Path, judge: Recorder, begin: float, deadline: float, most: int, seed: int
    ) -> None:
        self.judge, self.begin, self.deadline, self.most = judge, begin, deadline, most
        rows = known_lines(file)
        self.header = next((lands.Header.model_validate(r["header"]) for r in rows if "header" in r), None)
        points = [lands.Point.model_validate(r["point"]) for r in rows if "point" in r]
        self.numbers = {key(p): i for i, p in enumerate(points)}
        self.points, self.rng = points, random.Random(seed)
        self.seed = seed
        self.sites = sum("site" in r for r in rows)
        self.described = [lands.Source.model_validate(r["source"]) for r in rows if "source" in r]
        self.wholes = sum("whole" in r for r in rows)
        self.agains = Counter(r["again"]["number"] for r in rows if "again" in r)
        self.lines: TextIO = file.open("a")
        if rows and not file.read_bytes().endswith(b"\n"):
            self.lines.write("\n")

    def run(self) -> str:
        """What was done, in a line."""
        facts = self._facts()
        spaces = list(self._spaces(facts))
        defaults = [(s, s.unit) for s in spaces]
        self._measure(defaults, self.deadline)
        self._settle(spaces)
        columns = [[(s, u) for u in s.settings(random.Random(f"{self.seed}/{s.number}"))] for s in spaces]
        plain = [c[i] for i in range(max(map(len, columns), default=0)) for c in columns if i < len(c)]
        self._measure(plain, self._until(SHARES[0]))
        flagged = [pair for s in spaces for pair in self._flagged(s)]
        self._measure(flagged, self._until(SHARES[1]))
        self._measure_again(spaces, self._until(SHARES[2]))
        self._deploy(spaces)
        self.lines.close()
        todo = len({key(s.place(u)) for s, u in [*plain, *flagged]} - set(self.numbers))
        spent = sum(p.build + p.judge for p in self.points)
        return (
            f"{len(spaces)} sources, {len(self.points)} units ({todo} left), {self.wholes} whole candidates; "
            f"{spent / max(1, len(self.points)):.2f} core-seconds a unit"
        )

    def _until(self, share: float) -> float:
        return self.begin + share * (self.deadline - self.begin)

    def _write(self, record: Record) -> None:
        self.lines.write(line(record) + "\n")
        self.lines.flush()

    def _facts(self) -> Facts:
        """Those that the recording began with, so that the plans stay the same."""
        if self.header is None:
            judge = self.judge
            task = judge.task.model_copy(
                update={"source": judge.task.source.model_copy(update={"path": f"core/{judge.task.name}.py"})}
            )
            self.header = lands.Header(
                version=VERSION, task=task, target=judge.target.name, facts=facts_record(facts_of(judge)),
                limit=judge.limit, baselines=tuple(judge.baselines.values()), environment=judge.environment,
                register_bits=0 if judge.device == "cuda" else 32 * machine.simd_width_floats(), seed=self.seed,
            )  # fmt: skip
            self._write(self.header)
        facts = facts_from(self.header.facts)
        assert facts is not None
        return facts

    def _spaces(self, facts: Facts) -> Iterator[Space]:
        """Every technique of every region, at its own values."""
        graph, sites = self.judge.task.graph, dict[str, int]()
        found = sorted(
            ideas(graph, facts, Known(), plans(graph, facts)),
            key=lambda i: (i.region.nodes, i.technique.name),
        )
        for idea in found:
            try:
                unit = idea.family.write(graph, idea.region, idea.technique)
            except Unsupported:
                continue
            if idea.region.id not in sites:
                sites[idea.region.id] = len(sites)
                if len(sites) > self.sites:
                    self._write(self.judge.site(idea.region))
            yield Space(self._next_number(), sites[idea.region.id], unit)

    def _next_number(self) -> int:
        self._sources = getattr(self, "_sources", -1) + 1
        return self._sources

    def _settle(self, spaces: Sequence[Space]) -> None:
        """As many settings as the time allows, by what the first ones took; what was settled before stays."""
        each = median([p.build + p.judge for p in self.points] or [1.0])  # a region's first takes longer
        room = (self._until(SHARES[0]) - time.monotonic()) / each / max(1, len(spaces))
        most = max(FEWEST, min(self.most, int(room)))
        for space in spaces:
            if space.number < len(self.described):
                kept = self.described[space.number]
                space.domains = dict(zip(kept.names, kept.domains, strict=True))
            else:
                space.thin(most, random.Random(f"{self.seed}/{space.number}"))
                self._write(space.record())

    def _measure(self, pairs: Sequence[tuple[Space, Unit]], until: float) -> None:
        for space, unit in pairs:
            place = space.place(unit)
            if time.monotonic() > min(until, self.deadline):
                return
            if key(place) not in self.numbers:
                self.numbers[key(place)] = len(self.points)
                self.points.append(self.judge.measured(unit, place))
                self._write(self.points[-1])

    def _flagged(self, space: Space) -> Iterator[tuple[Space, Unit]]:
        """The fastest settings of a source with other compiler flags, as the expert may ask for them of a C++ compiler."""
        if space.unit.language == "cuda":
            return
        mine = [p for p in self.points if p.source == space.number and p.status == "ok" and not p.flags]
        for point in sorted(mine, key=lambda p: p.us)[:BEST] if space.unit.compiled else ():
            unit = self._unit(space, point)
            for flag in dict.fromkeys([*FLAGS, *FLAG_FOR.values()]):
                yield space, unit.model_copy(update={"flags": (*unit.flags, flag)})

    def _measure_again(self, spaces: Sequence[Space], until: float) -> None:
        """Round by round in another order each, since a machine has slow minutes."""
        near = self._near(spaces)
        while (todo := [i for i in near if self.agains[i] < AGAIN]) and time.monotonic() < until:
            least = min(self.agains[i] for i in todo)
            turn = [i for i in todo if self.agains[i] == least]
            for i in self.rng.sample(turn, len(turn)):
                if time.monotonic() > min(until, self.deadline):
                    return
                point = self.points[i]
                found = self.judge.again(self._unit(spaces[point.source], point), point)
                self.agains[i] += 1
                if found is not None:
                    self._write(lands.Remeasurement(number=i, us=found.us, low=found.low, high=found.high))

    def _near(self, spaces: Sequence[Space]) -> list[int]:
        """Of each region the points that may be its best, one of each machine code."""
        sites: dict[int, list[int]] = {}
        for i, point in enumerate(self.points):
            if point.status == "ok":
                sites.setdefault(spaces[point.source].site, []).append(i)
        found: dict[tuple[int, str], int] = {}
        for site, numbers in sites.items():
            fastest = min(self.points[i].us for i in numbers)
            for i in numbers:
                if self.points[i].us <= NEAR * fastest:
                    found.setdefault((site, self.points[i].code or str(i)), i)
        return list(found.values())

    def _unit(self, space: Space, point: lands.Point) -> Unit:
        values = dict(zip((t.name for t in space.unit.tunables), point.values, strict=True))
        return with_values(space.unit, values).model_copy(update={"flags": (*space.unit.flags, *point.flags)})

    def _deploy(self, spaces: Sequence[Space]) -> None:
        """Random candidates of disjoint units that work: each of one to three sources where there are as many."""
        working = [i for i, p in enumerate(self.points) if p.status == "ok"]
        while working and self.wholes < WHOLES and time.monotonic() < self.deadline:
            chosen: dict[int, Unit] = {}
            taken: set[str] = set()
            for number in self.rng.sample(working, len(working)):
                unit = self._unit(spaces[self.points[number].source], self.points[number])
                if len(chosen) < 3 and not taken & set(unit.region.nodes):
                    chosen[number] = unit
                    taken |= set(unit.region.nodes)
            timing = self.judge.deployed(list(chosen.values()))
            self.wholes += 1
            if timing is not None:
                numbers = tuple(chosen)
                self._write(
                    lands.Whole(points=numbers, us=timing.median_us, low=timing.low_us, high=timing.high_us)
                )


def main_task(path: Path, scratch: Scratch, timeout: float) -> Task:
    """The task at its main shapes alone. Raises TaskError."""
    with TaskHost(read_source(str(path)), scratch=scratch, timeout=timeout) as host:
        main = Variant(name="main", overrides={}, graph=host.export({}))
        return Task(name=task_name(host.source), source=host.source, variants=(main,), suite="core")


def record_task(
    path: Path, file: Path, cache: Path, *, seconds: float, most: int, seed: int, baselines: Sequence[str],
    target: str = "cpu",
) -> str:  # fmt: skip
    """Measure one task into `file` for at most `seconds`. Raises WarpsmithError. Returns what was done, in a line."""
    begin = time.monotonic()
    with Scratch() as scratch:
        task = main_task(path, scratch, 120.0)
        builds: Target = CudaTarget(cache / "builds") if target == "cuda" else CpuTarget(cache / "builds")
        with Recorder(
            task, builds, scratch=scratch, workdir=scratch.new("record"), seed=seed, quick=True,
            baselines=baselines, peaks_cache=cache,
        ) as judge:  # fmt: skip
            judge.prepare()
            opened = time.monotonic() - begin
            told = Recording(file, judge, time.monotonic(), begin + seconds, most, seed).run()
            parts = ", ".join(f"{name} {spent:.0f}" for name, spent in judge.seconds.items())
    return f"{told}; opened in {opened:.0f} s ({parts})"
