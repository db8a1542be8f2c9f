"""Two versions of one candidate before the judge: each is verified as any candidate is, then both are timed against each other.

In: a task, candidates `before` and `after`, a target each. Out: what the judge says of each, and the ratio before/after (above 1: the
later one is faster) with its interval. No baseline is compiled or timed: the opponent of a candidate is the other candidate.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from warpsmith.errors import WarpsmithError
from warpsmith.judge.building import Built, build_all
from warpsmith.judge.correctness.evidence import Case
from warpsmith.judge.device.memory import check_memory
from warpsmith.judge.judge_session import JudgeSession
from warpsmith.judge.timing.bench import CONFIRM_ROUNDS, GPU_CONFIRM_ROUNDS, BenchRun
from warpsmith.judge.timing.timed_process import TimedProcess
from warpsmith.records import Build, Candidate, Check, Diagnostic, Graph, Region, Unit
from warpsmith.runtime.rewrites import deployed_graph
from warpsmith.targets.native_target import LIBRARY
from warpsmith.targets.target import Finding

SECONDS = 1.0  # of timing, both together
TIMED_CHECKS = 2  # timed calls whose outputs are checked; a version that cheats is not what is looked for
Row = dict[str, Any]


@dataclass(frozen=True)
class CarriedTarget:
    """A target whose libraries were built elsewhere: `libraries` holds them by `Unit.code_key`. Safe in several threads."""

    libraries: Mapping[str, Path]
    folder: Path  # where the judge may write beside them
    language: Literal["c++", "cuda"]

    @property
    def name(self) -> str:
        return "cuda" if self.language == "cuda" else "cpu"

    def header(self, graph: Graph, region: Region) -> str:
        return ""

    def build(self, unit: Unit, graph: Graph, variant: str) -> Build:
        carried = self.libraries.get(unit.code_key)
        if carried is None:
            missing = Diagnostic(line=0, kind="error", message="its library was not carried along")
            return Build(unit_key=unit.code_key, variant=variant, ok=False, diagnostics=(missing,))
        library = self.folder / carried.stem / LIBRARY
        if not library.exists():
            library.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(carried, library)
        return Build(unit_key=unit.code_key, variant=variant, ok=True, library=str(library), cached=True)

    def doctor(self) -> list[Finding]:
        return []


@dataclass(frozen=True)
class Version:
    name: str
    candidate: Candidate
    target: CarriedTarget


class PairSession(JudgeSession):
    """A judge's session that is opened without baselines, admission and limits: who is timed are two candidates."""

    def open(self) -> None:
        """Raises TaskError and JudgeError as the judge does."""
        check_memory(self.task, self._room(), self.device)
        self.workdir.mkdir(parents=True, exist_ok=True)
        with self._guard_trusted("the judge could not start"):
            self._start_bench()

    def compare(self, before: Version, after: Version, keep: Callable[[Row], None]) -> Row:
        """The row of a pair: status, checks of each, times, ratio. `keep`: is told what is known before the timing."""
        row: Row = {"reason": "", "seed": self.seed}
        builds = {version.name: self._build(version) for version in (before, after)}
        cases = self._cases()
        for version in (before, after):
            self.progress(f"verifying the units {version.name}")
            row[version.name] = self._verify(version, builds[version.name], cases)
        wrong = next((v.name for v in (before, after) if not row[v.name]["right"]), None)
        if wrong is not None:
            # No room on the device says nothing of the units.
            status = "error" if row[wrong]["status"] == "error" else "incorrect"
            return {**row, "status": status, "reason": f"{wrong}: {row[wrong]['reason']}"}
        keep(row)
        self.progress("timing them against each other")
        return {**row, **self._time_both(before, after, builds, row)}

    def _build(self, version: Version) -> Built:
        (built,) = build_all([version.candidate], self.task, version.target, (self.task.main.name,))
        return built

    def _cases(self) -> list[Case]:
        """What a confirmation looks at, at the main shapes."""
        planned = self.plan.confirm(self._fresh[0], self._draw())
        return [case for case in planned if case.variant == self.task.main.name]

    def _verify(self, version: Version, built: Built, cases: list[Case]) -> Row:
        if built.status != "ok":
            return {
                "right": False,
                "status": "error",
                "reason": f"{built.status}: {built.reason}",
                "checks": 0,
            }
        start = time.monotonic()
        verified = self.verifier.verify(version.candidate, built.libraries, cases)
        return {
            "right": verified.ok, "status": verified.status, "reason": verified.reason, "checks": len(verified.checks),
            "families": sorted({c.family for c in verified.checks}), "skipped": sorted(verified.skipped),
            "error": max((c.error for c in verified.checks), default=0.0), "isolation": verified.isolation,
            "verify_s": round(time.monotonic() - start, 1),
        }  # fmt: skip

    def _time_both(self, before: Version, after: Version, builds: Mapping[str, Built], row: Row) -> Row:
        """Many rounds that test the later one, then a few that test the earlier one: outputs of timed calls are checked of the tested."""
        processes = {v.name: self._fork(v, builds[v.name]) for v in (before, after)}
        rounds = GPU_CONFIRM_ROUNDS if self.device == "cuda" else CONFIRM_ROUNDS
        try:
            run = self._measure(after, processes, before, rounds, TIMED_CHECKS)
            back = self._measure(before, processes, after, None, 1)
        except WarpsmithError as error:
            return {"status": "error", "reason": f"timing: {type(error).__name__}: {error}"}
        finally:
            for process in processes.values():
                process.close()
        failed = [self._check_timed(v, timed, row) for v, timed in ((after, run), (before, back))]
        reason = next((text for text in failed if text), "")
        ratio, back_ratio = run.timing.ratios[0], back.timing.ratios[0]
        return {
            "status": "incorrect" if reason else "ok", "reason": reason, "rounds": rounds,
            "after_us": run.timing.median_us, "before_us": run.timing.median_us * ratio.median,
            "ratio": [ratio.median, ratio.low, ratio.high], "back": [back_ratio.median, back_ratio.low, back_ratio.high],
            "cache": run.timing.cache, "drift": run.timing.drift, "gpu_state": run.timing.gpu_state,
        }  # fmt: skip

    def _fork(self, version: Version, built: Built) -> TimedProcess:
        """Its process, as a candidate has one."""
        graph = deployed_graph(self.task.graph, version.candidate.units)
        parts = [
            (u.region, Path(built.libraries[self.task.main.name, u.code_key].library))
            for u in version.candidate.compiled
        ]
        return self.bench.session.fork(parts, version.name, None if graph is self.task.graph else graph)

    def _measure(
        self, tested: Version, processes: Mapping[str, TimedProcess], other: Version, rounds: int | None, checks: int
    ) -> BenchRun:  # fmt: skip
        values = [self._next_values() for _ in range(3)]
        graph = deployed_graph(self.task.graph, tested.candidate.units)
        units = tested.candidate.compiled
        launches = len(units) + len(graph.nodes) - sum(len(u.region.nodes) for u in units)
        opponent = processes[other.name]
        if not opponent.expected:
            opponent.expected = self._expect(opponent, values[0])
        return self.bench.measure(
            processes[tested.name], [opponent], values, rounds=rounds, target_seconds=SECONDS if rounds else None,
            checks=checks, launches=launches,
        )  # fmt: skip

    def _expect(self, process: TimedProcess, values: Path) -> float:
        with self.device_lock.hold_exclusive():
            return self.bench.session.estimate(process, values)

    def _check_timed(self, version: Version, run: BenchRun, row: Row) -> str:
        """Why outputs of its timed calls are wrong; empty where they are not."""
        checks: list[Check] = []
        for sample in run.samples:
            checks.append(
                self.verifier.check_whole(self.task.main.name, sample, self._draw(), self._draws(True))
            )
            sample.remove()
        row[version.name]["timed_checks"] = len(checks)
        wrong = next((c for c in checks if not c.ok), None)
        row[version.name]["right"] = wrong is None
        return "" if wrong is None else f"{version.name}: {wrong.rule} in a timed run: {wrong.detail}"
