"""A judge that measures units one by one, and whole candidates as deployed, without comparing them.

In: an opened task, units. Out: points of a landscape.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from warpsmith.executors import landscape_data as lands
from warpsmith.judge.building import Built
from warpsmith.judge.correctness.verify import Runner, Verification, Verifier
from warpsmith.judge.judge import SEARCHED, Judge, Outcome
from warpsmith.judge.roofline.limits import region_limit
from warpsmith.judge.timing.bench import ClocksDisagree
from warpsmith.processes.worker import WorkerDied, WorkerFailed, WorkerTimeout
from warpsmith.profile.code_profile import CodeProfiler
from warpsmith.records import (
    Candidate,
    Region,
    RegionProfile,
    Timing,
    Unit,
)
from warpsmith.targets.fingerprint import fingerprint

FIRST, LEAST, MOST = 3, 5, 15  # calls of a unit alone: to know what one takes; then so many
UNIT_SECONDS = 0.4  # of timing a unit alone, evictions included
CODE = 8  # digits of a fingerprint that are kept


class Recorder(Judge):
    """A judge whose units are also measured one by one."""

    def prepare(self) -> None:
        self.open()
        self.code_profiler = CodeProfiler()
        self.sampler = Sampler(self.task, self.evidence, self.scratch, self.verifier.limits)
        self._cases = self.plan.search(self._fresh[0])
        self._by_code: dict[tuple[str, str], lands.Point] = {}  # (region, machine code) → what was measured

    def site(self, region: Region) -> lands.Site:
        limit = region_limit(self.task.graph, region, self.peaks, cold=True)
        return lands.Site(
            nodes=region.nodes, limit_us=limit.seconds * 1e6, bound=limit.bound, least_bytes=limit.least_bytes,
            flops=limit.flops,
        )  # fmt: skip

    def measured(self, unit: Unit, place: lands.Point) -> lands.Point:
        """`place`: its coordinates."""
        built = self._build([self._alone(unit)])[0]
        spent = round(built.seconds, 2)
        if built.status != "ok":
            return place.model_copy(
                update={"status": built.status, "reason": built.reason[:120], "build": spent}
            )
        code = fingerprint(built.builds[0].library)[:CODE] if unit.compiled else ""
        same = self._by_code.get((unit.region.id, code)) if code else None
        if same is not None:  # the same machine code for the same region is not measured twice
            own = {n: getattr(place, n) for n in ("source", "values", "flags")}
            return same.model_copy(update={**own, "build": spent})
        point = self._verified_and_timed(unit, built, place.model_copy(update={"build": spent, "code": code}))
        self._by_code[unit.region.id, code] = point
        return point

    def again(self, unit: Unit, point: lands.Point) -> lands.Point | None:
        """The same once more, in a process of its own; None where it does not work any more."""
        built = self._build([self._alone(unit)])[0]
        found = self._verified_and_timed(unit, built, point) if built.status == "ok" else None
        return found if found is not None and found.status == "ok" else None

    def _verified_and_timed(self, unit: Unit, built: Built, place: lands.Point) -> lands.Point:
        start = time.monotonic()
        found = self.sampler.verify(self._alone(unit), built.libraries, self._cases, timed=1, most=SEARCHED)
        update = {"judge": round(time.monotonic() - start, 2)}
        if not found.ok:
            return place.model_copy(update=update | {"status": found.status, "reason": found.reason[:120]})
        calls = np.array(self.sampler.calls) / 1e3
        low, us, high = (round(float(v), 2) for v in np.quantile(calls, [0.1, 0.5, 0.9]))
        seen = self._looked_at(unit, built, us)
        return place.model_copy(
            update=update | {
                "us": us, "low": low, "high": high, "calls": len(calls), "balance": found.unit_balance.get(unit.region.id),
                "vector_bits": seen.vector_bits, "called": seen.calls,
                "vector_share": None if seen.vector_share is None else round(seen.vector_share, 3),
            }
        )  # fmt: skip

    def _looked_at(self, unit: Unit, built: Built, us: float) -> RegionProfile:
        found = Verification(unit_us={unit.region.id: us})
        timing = Timing(median_us=us, low_us=us, high_us=us, cache="cold", samples=1, ratios=())
        result = self._result(self._alone(unit), built, Outcome(), found, timing)
        profile = self.code_profiler.complete(result, self._alone(unit)).profile
        assert profile is not None
        return profile.regions[0]

    def deployed(self, units: Sequence[Unit]) -> Timing | None:
        """The whole as deployed, in the search's time; None where it could not be measured."""
        candidate = self._alone(*units)
        built, main = self._build([candidate])[0], self.task.main.name
        libraries = {u.region.id: Path(built.libraries[main, u.code_key].library) for u in candidate.compiled}
        try:
            return self.bench.time(candidate, libraries, self._next_values).timing
        except (WorkerDied, WorkerFailed, WorkerTimeout, ClocksDisagree):
            return None

    def _alone(self, *units: Unit) -> Candidate:
        order = {node.name: i for i, node in enumerate(self.task.graph.nodes)}
        ordered = tuple(sorted(units, key=lambda u: order[u.region.nodes[0]]))
        return Candidate(task_id=self.task.id, target=self.target.name, units=ordered)


class Sampler(Verifier):
    """Keeps the times of each call of the last unit."""

    calls: list[int]

    def _alone_us(self, runner: Runner, calls: int) -> float:
        with self._device_lock.hold_exclusive():
            start = time.monotonic()
            runner.time(FIRST, True)  # the first calls of a process are not counted
            each = (time.monotonic() - start) / FIRST
            self.calls = runner.time(max(LEAST, min(MOST, int(UNIT_SECONDS / each))), True)
        return float(np.median(self.calls)) / 1e3
