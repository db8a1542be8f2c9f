"""The judge: candidates in, results out; a speedup that is not real is worse than none.

`evaluate` takes candidates through build → verify → time → label; a candidate's failure is a `Result`, never
an exception. `confirm` does it again from the start: fresh processes, fresh seeds, every baseline side by
side, more families and samples. Candidates are fixed before the seeds of their own inputs are drawn. What is
opened first is in `judge_session.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path

from .. import machine
from ..errors import TaskError, WarpsmithError
from ..processes.worker import WorkerDied, WorkerFailed, WorkerTimeout
from ..progress import counted
from ..records import Candidate, Check, Profile, Result, Status, Timing, Verdict
from ..runtime.rewrites import deployed_graph
from ..tasks.regions import make_region
from .building import Built, build_all
from .correctness.evidence import Case
from .correctness.plan import MANY_SHAPES, STAND_IN, UNIT_RUNS
from .correctness.verify import Verification
from .device import gpu_state
from .device.memory import count_checked_calls, estimate_bytes
from .device.patience import NO_MEMORY
from .judge_session import JudgeSession
from .labels import explain_doubt, labels
from .roofline.limits import hard_floor
from .roofline.region_profiles import region_profiles
from .secret_shape import SecretShape
from .timing.bench import CONFIRM_ROUNDS, GPU_CONFIRM_ROUNDS, BaselineLost, BenchRun, ClocksDisagree

SEARCHED = 1 << 22  # elements of each output of a unit that the search looks at
MOST_AT_ONCE = 8  # candidates verified at a time
ROOM_SHARE = 2  # of the memory that is free, one part in so many is for them
FASTER_DEPLOYED = (
    0.5  # of what the units take alone, at least, a candidate takes as deployed; 0.8 and more is usual
)
Verified = tuple[Verification, float]  # and the seconds that it took


@dataclass(frozen=True)
class Outcome:
    """The outcome of one stage of one candidate."""

    status: Status = "ok"
    reason: str = ""


class Judge(JudgeSession):
    """A context manager: `open()` it once, then `evaluate` rounds of candidates and `confirm` the winners."""

    _limit_again = False  # whether the limit was measured again because a candidate beat it
    # Whether the baselines' processes are younger than the last search, if there was one.
    _fresh_baselines = True

    def evaluate(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        """Results in the candidates' order. All are built before the first is timed, and before this round's
        seeds are drawn.
        """
        batch = list(candidates)
        self._fresh_baselines = False
        shapes = [v.name for v in self.task.variants[: 1 if self.quick else 1 + MANY_SHAPES]]
        built = self._build(batch, shapes)
        with self._guard_trusted("no fresh inputs"):
            self._fresh_values()
        cases = self.plan.search(self._fresh[0])
        at_once = self._at_once()
        verified = self._verify_together(batch, built, cases, at_once) if at_once > 1 else [None] * len(batch)
        for candidate, build, verification in zip(batch, built, verified, strict=True):
            yield self._judge_one(candidate, build, cases, confirm=False, verified=verification)

    def remeasure(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        """Time candidates that were verified once more against the search's baselines, with fresh inputs, and check what the timed calls return.

        They are not verified again: whatever wins is, when it is confirmed.
        """
        batch = list(candidates)
        self._fresh_baselines = False
        built = self._build(batch, (self.task.main.name,))
        with self._guard_trusted("no fresh inputs"):
            self._fresh_values()
        for candidate, build in zip(batch, built, strict=True):
            yield self._remeasure_one(candidate, build)

    def _remeasure_one(self, candidate: Candidate, built: Built) -> Result:
        """A trusted process that is lost costs this measurement, nothing else."""
        if built.status != "ok":
            return self._result(candidate, built, Outcome(built.status, built.reason))
        start = time.monotonic()
        try:
            outcome, timing, checks = self._time(candidate, built, confirm=False, losers_too=True)
        except (WorkerDied, WorkerTimeout, WorkerFailed, BaselineLost) as error:
            self._revive(isinstance(error, BaselineLost))
            return self._result(candidate, built, Outcome("error", str(error)))
        verification, seconds = Verification(checks=checks), {"time": time.monotonic() - start}
        return self._result(candidate, built, outcome, verification, timing, seconds)

    def confirm(self, candidate: Candidate) -> Result:
        """A fresh run: processes, seeds and samples share nothing with the search. Confirmations in a row
        share the fresh baselines.
        """
        built = self._build([candidate])[0]
        try:
            self._start_afresh()
        except BaselineLost as error:
            return self._result(candidate, built, Outcome("error", str(error)))
        self.progress("verifying and timing it against every baseline")
        cases = self.plan.confirm(self._fresh[0], self._draw())
        try:
            if built.status == "ok":
                with self._guard_trusted("no rewritten reference"):
                    self._time_rewritten(candidate)
            return self._judge_one(candidate, built, cases, confirm=True)
        finally:
            self.bench.pool.drop_rewritten()
            for case in cases:
                if case not in self._fresh:
                    self.evidence.forget(case)

    def _start_afresh(self) -> None:
        with self._guard_trusted("no fresh baselines"):
            self._fresh_values(3)
            if not self._fresh_baselines:
                with self._stage("confirm-baselines", "starting fresh baselines"):
                    self.bench.pool.restart(fresh_values=self._next_values)
                self._fresh_baselines = True

    def _build(self, candidates: Sequence[Candidate], variants: Sequence[str] | None = None) -> list[Built]:
        """In order, at all variants or those named. What does not fit this task is refused before anything is built."""
        outcomes = [self._check_regions(c) for c in candidates]
        fit = [c for c, o in zip(candidates, outcomes, strict=True) if o.status == "ok"]
        for candidate in fit:
            self.moved(candidate, "building")
        built = iter(build_all(fit, self.task, self.target, variants))
        builds = [next(built) if o.status == "ok" else Built((), {}, o.status, o.reason) for o in outcomes]
        for candidate in fit:
            self.moved(candidate, "waiting")
        return builds

    def _at_once(self) -> int:
        """Candidates to verify at a time: on a CPU one, which has all processors; on a GPU as many as the
        host has processors and both have memory for.
        """
        if self.device == "cpu":
            return 1
        room = min(gpu_state.free_bytes(), self._room()) // ROOM_SHARE
        bytes_each = estimate_bytes(self.task.graph, self.device)
        return max(1, min(MOST_AT_ONCE, len(machine.affinity()) // 2, room // bytes_each))

    def _verify_together(
        self, candidates: Sequence[Candidate], built: Sequence[Built], cases: Sequence[Case], many: int
    ) -> list[Future[Verified] | None]:
        """Verify several at a time; all are done when this returns, so that nothing disturbs the timing."""
        self.progress(f"verifying {counted(len(candidates), 'candidate')}, {many} at a time")
        with ThreadPoolExecutor(many) as pool:
            return [
                pool.submit(self._verify, c, b, cases, False) if b.status == "ok" else None
                for c, b in zip(candidates, built, strict=True)
            ]

    def _verify(self, candidate: Candidate, built: Built, cases: Sequence[Case], confirm: bool) -> Verified:
        start = time.monotonic()
        self.moved(candidate, "confirming" if confirm else "verifying")
        verification = self.verifier.verify(
            candidate, built.libraries, cases, timed=UNIT_RUNS if confirm or not self.quick else 0, stand_in="" if confirm else STAND_IN,
            most=None if confirm else SEARCHED,
        )  # fmt: skip
        if confirm and verification.ok and not self.quick:
            at_secret = self._secret_shape.verify(candidate, self.verifier.limits)
            verification = replace(
                verification,
                checks=verification.checks + at_secret.checks,
                status=at_secret.status,
                reason=at_secret.reason,
            )
        return verification, time.monotonic() - start

    @cached_property
    def _secret_shape(self) -> SecretShape:
        secret_shape = SecretShape(
            self.task, self.target, scratch=self.scratch, threads=self.environment.threads, device=self.device,
            device_lock=self.device_lock, random=self._random, progress=self.progress,
        )  # fmt: skip
        self._stack.callback(secret_shape.close)
        return secret_shape

    def _judge_one(
        self, candidate: Candidate, built: Built, cases: Sequence[Case], confirm: bool,
        verified: Future[Verified] | None = None,
    ) -> Result:  # fmt: skip
        """Take one candidate through every stage. A trusted process that is lost is restarted once."""
        lost = (WorkerDied, WorkerTimeout, WorkerFailed, BaselineLost)
        try:
            return self._attempt(candidate, built, cases, confirm, verified)
        except lost as error:
            self.progress(f"restarting the judge's processes: {error}")
            baselines = isinstance(error, BaselineLost)
        try:
            self._revive(baselines)
            return self._attempt(candidate, built, cases, confirm, None)
        except lost as error:
            return self._result(
                candidate, built, Outcome("error", f"the judge lost a process twice: {error}")
            )

    def _attempt(
        self, candidate: Candidate, built: Built, cases: Sequence[Case], confirm: bool,
        verified: Future[Verified] | None,
    ) -> Result:  # fmt: skip
        seconds = {"build": built.seconds}
        if built.status != "ok":
            return self._result(candidate, built, Outcome(built.status, built.reason), seconds=seconds)
        verification, seconds["verify"] = (
            verified.result() if verified else self._verify(candidate, built, cases, confirm)
        )
        if not verification.ok:
            outcome = Outcome(verification.status, verification.reason)
            return self._result(candidate, built, outcome, verification, seconds=seconds)
        start = time.monotonic()
        outcome, timing, checks = self._time(candidate, built, confirm)
        seconds["time"] = time.monotonic() - start
        verification = replace(verification, checks=verification.checks + checks)
        timing = timing.model_copy(update={"unit_us": verification.unit_us}) if timing else None
        if confirm and outcome.status == "ok" and timing is not None:
            outcome = self._compare_with_isolated(candidate, built, cases, timing, verification)
        return self._result(candidate, built, outcome, verification, timing, seconds)

    def _compare_with_isolated(
        self,
        candidate: Candidate,
        built: Built,
        cases: Sequence[Case],
        timing: Timing,
        verification: Verification,
    ) -> Outcome:
        """Refuse what is much faster as deployed than its units are in isolation, where they can start no thread and reach nothing.
        A busy machine may have slowed the isolated runs, so these are repeated once.
        """
        for attempt in (verification, None):
            isolated = attempt or self._verify(candidate, built, cases, True)[0]
            alone = sum(isolated.least_us.get(u.region.id, 0.0) for u in candidate.compiled)
            if timing.high_us >= FASTER_DEPLOYED * alone:
                return Outcome()
        return Outcome(
            "invalid",
            f"deployed: {timing.high_us:.1f} µs as deployed, but its units take {alone:.1f} µs in isolation at the least",
        )

    def _time_twice_at_most(
        self, candidate: Candidate, libraries: Mapping[str, Path], confirm: bool
    ) -> BenchRun:
        """A busy machine can make clocks disagree, so then it is timed once more, in a fresh process; a clock that lies does so again."""
        names = [n for n, t in self.bench.pool.timings.items() if t.ok] if confirm else None
        time_it = partial(
            self.bench.time, candidate, libraries, self._next_values, rounds=self._rounds() if confirm else None,
            baselines=names, checks=count_checked_calls(self.task.graph) if confirm else 1,
        )  # fmt: skip
        try:
            return time_it()
        except ClocksDisagree as error:
            self.progress(f"timing it again: {error}")
            return time_it()

    def _time(
        self, candidate: Candidate, built: Built, confirm: bool, losers_too: bool = False
    ) -> tuple[Outcome, Timing | None, tuple[Check, ...]]:
        """Time it as deployed, then check what the timed calls returned, then the speed of light. `losers_too`: check also what
        cannot win.
        """
        self.moved(candidate, "confirming" if confirm else "timing")
        main = self.task.main.name
        libraries = {u.region.id: Path(built.libraries[main, u.code_key].library) for u in candidate.compiled}
        try:
            run = self._time_twice_at_most(candidate, libraries, confirm)
        except WorkerTimeout as error:
            return Outcome("timeout", f"as deployed: {error}"), None, ()
        except (WorkerDied, WorkerFailed) as error:
            full = isinstance(error, WorkerFailed) and error.kind == NO_MEMORY  # others may use it, too
            return Outcome("error" if full else "crashed", f"as deployed: {error}"), None, ()
        except ClocksDisagree as error:
            return Outcome("invalid", str(error)), None, ()
        checks = []
        best = run.timing.best
        cannot_win = best is not None and best.high < 1.0
        loses = cannot_win and not confirm and not losers_too  # its outputs need no oracle
        for sample in () if loses else run.samples:
            checks.append(self.verifier.check_whole(main, sample, self._draw(), self._draws(confirm)))
        for sample in run.samples:
            sample.remove()
        wrong = next((c for c in checks if not c.ok), None)
        self._doubt_limit(run.timing.median_us * 1e-6, refuses=wrong is None)
        timing = run.timing.restate(self.limit).model_copy(update={"confirmed": confirm})
        if wrong is not None:
            return Outcome("incorrect", f"{wrong.rule} in a timed run: {wrong.detail}"), timing, tuple(checks)
        floor_us = hard_floor(self.limit, self.task.graph) * 1e6
        if timing.median_us < floor_us:
            reason = f"{timing.median_us:.1f} µs is below the memory floor of {floor_us:.1f} µs"
            return Outcome("invalid", reason), timing, tuple(checks)
        return Outcome(), timing, tuple(checks)

    def _doubt_limit(self, seconds: float, refuses: bool) -> None:
        """Measure a limit that was beaten again, once: its peaks may be from a busy machine. `refuses`: whether the floor would
        refuse this time, which it never does before it was measured again.
        """
        beaten = seconds < self.limit.seconds and not self._limit_again
        if beaten or (refuses and seconds < hard_floor(self.limit, self.task.graph)):
            self._limit_again = True
            self._measure_limit(refresh=True)

    def _rounds(self) -> int:
        return GPU_CONFIRM_ROUNDS if self.device == "cuda" else CONFIRM_ROUNDS

    def _check_regions(self, candidate: Candidate) -> Outcome:
        """Check that the units' regions are what they say on this task's graph."""
        if candidate.task_id != self.task.id:
            return Outcome("refused", "the candidate was written for another task")
        covered: set[str] = set()
        for unit in candidate.units:
            try:
                actual = make_region(self.task.graph, unit.region.nodes)
            except (WarpsmithError, KeyError, ValueError) as error:
                return Outcome("refused", f"not a region of this task: {error}")
            stated = unit.region
            if (actual.nodes, set(actual.inputs), actual.outputs) != (
                stated.nodes,
                set(stated.inputs),
                stated.outputs,
            ):
                return Outcome("refused", "a region's inputs or outputs are not what its nodes read and make")
            if covered & set(unit.region.nodes):
                return Outcome("refused", "two units cover the same node")
            covered |= set(unit.region.nodes)
        try:
            deployed_graph(self.task.graph, candidate.units)
        except TaskError as error:
            return Outcome("refused", str(error))
        return Outcome()

    def _result(
        self, candidate: Candidate, built: Built, outcome: Outcome, verification: Verification | None = None,
        timing: Timing | None = None, seconds: dict[str, float] | None = None,
    ) -> Result:  # fmt: skip
        self.moved(candidate, "")
        verdict = None
        if verification is not None:
            doubt = explain_doubt(candidate, self.task.graph, self.limit, verification.unit_us)
            verdict = Verdict(
                correct=verification.ok and all(c.ok for c in verification.checks),
                checks=verification.checks, isolation=verification.isolation,
                labels=labels(candidate, self.task.graph, self.limit, verification.unit_us),
                reasons=tuple(filter(None, (outcome.reason, doubt))),
            )  # fmt: skip
        return Result(
            candidate_id=candidate.id, content_key=candidate.content_key, task_id=self.task.id,
            target=self.target.name, status=outcome.status, reason=outcome.reason, builds=built.builds,
            verdict=verdict, timing=timing, profile=self._profile_units(candidate, outcome, verification),
            seconds={k: round(v, 4) for k, v in (seconds or {}).items()}, environment=self.environment.id,
            seed=self.seed,
            judged_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )  # fmt: skip

    def _profile_units(
        self, candidate: Candidate, outcome: Outcome, verification: Verification | None
    ) -> Profile | None:
        """Profile each unit of a correct candidate alone."""
        if verification is None or outcome.status != "ok":
            return None
        return region_profiles(
            candidate, self.task.graph, self.peaks, verification.unit_us, verification.unit_balance,
            self.environment.threads,
        )  # fmt: skip
