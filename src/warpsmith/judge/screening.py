"""Screening: which candidates are worth a verdict, many a minute.

In: candidates. Out: a Result for each, of status "screened" with an estimate of its speedup, or the failure that ended it. A candidate is
built at the main shape and one more, its units run in the isolated runners on two cases only, several candidates at a time, and each unit is
timed alone; of units with one code for equal layers the first, and each once: a candidate that shares units with those before it costs only its new
ones. The whole is never timed: what it may take is put together from the units' times and what the reference's other operations took. So nothing here is a speedup; whoever looks good is judged from the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, reduce

from ..hardware import hardware_of
from ..processes.worker import WorkerDied, WorkerFailed, WorkerTimeout
from ..records import BaselineTiming, Candidate, Graph, Ratio, Region, Result, Timing, Unit
from ..tasks.twins import find_twins
from .building import Built
from .correctness.verify import Verification, join, pick_region
from .judge import Judge, Outcome, Verified
from .judge_session import MIN_PATIENCE_S
from .timing.baselines import EAGER

SCREENED = "screened only: its units are right on two cases and were timed alone"
CAPTURED = "cuda-graph"
DOUBT = 1.25  # the factor by which an estimate may be off, either way

Ran = Verified | Exception  # what came of a run, or the loss of a trusted process beside it


class ScreeningJudge(Judge):
    """A judge of two tiers: `screen` many, `evaluate` those that are worth it."""

    _waiting: tuple[str, ...] = ()  # baselines that no process was started for yet

    @cached_property
    def _screened(self) -> dict[str, Verification]:
        """Keep what was measured of each unit that is right, by its code key: it is not run again."""
        return {}

    def begin(self) -> None:
        """Open it as far as screening needs it: the baselines compile meanwhile. Raises what `open` raises."""
        with self._guard_trusted("the judge could not start"):
            self._prepare()
            self._profile_reference()

    def begin_with_eager(self) -> None:
        """Open it for screening alone: eager is timed, the other baselines wait for `complete`, so that nothing compiles beside
        what is screened. Raises what `open` raises.
        """
        self._waiting = tuple(n for n in self._names if n != EAGER)
        names, self._names = self._names, (EAGER,)
        with self._guard_trusted("the judge could not start"):
            self._prepare()
            with self._stage("baselines", "timing eager"):
                timings = self.bench.pool.start(self._names, fresh_values=self._next_values)
            self.baselines = {n: t.restate(self.limit) for n, t in timings.items()}
            self.verifier.limits = replace(self.verifier.limits, timeout=self._patience())
            self._profile_reference()
        self._names = names

    def complete(self) -> None:
        """Do what `begin` has left: admit the task, time and check the baselines. Raises what `open` raises."""
        with self._guard_trusted("the judge could not start"):
            if self._waiting:
                self.bench.pool.begin_again(self._names, fresh_values=self._next_values)
                self._waiting = ()
            self._time_baselines()

    def screen(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        """Yield in order. All are done when the first comes. The inputs are the same each time: to draw them and to compute the truth
        takes longer than to screen a candidate, and a verdict has inputs of its own.
        """
        batch = list(candidates)
        alike = [find_alike(self.task.graph, c) for c in batch]
        built = self._build(batch, [c.variant for c in self.plan.screen(self._own)])
        for candidate in batch:
            self.moved(candidate, "screening")
        with self._short_patience():
            ran = self._run_new_units(batch, built, alike)
        yield from (
            self._screen_one(candidate, build, twins, ran.get(i))
            for i, (candidate, build, twins) in enumerate(zip(batch, built, alike, strict=True))
        )

    def _run_new_units(
        self, batch: Sequence[Candidate], built: Sequence[Built], alike: Sequence[Mapping[str, str]]
    ) -> dict[int, Ran]:
        """Run each unit that was not screened before, once for all candidates that have it. Return what came of it by the number of the
        candidate that it was run for. What runs beside a unit that fails is run again for the next candidate that has it.
        """
        ran, failed = dict[int, Ran](), set[int]()
        cases = self.plan.screen(self._own)
        waiting = [i for i, build in enumerate(built) if build.status == "ok"]
        while waiting:
            claimed, runs = set(self._screened), dict[int, Candidate]()
            for i in waiting:
                units = tuple(u for u in list_first(batch[i], alike[i]) if u.code_key not in claimed)
                claimed.update(u.code_key for u in units)
                if units:
                    runs[i] = batch[i].model_copy(update={"units": units})
            if not runs:
                break
            builds = [built[i] for i in runs]
            verified = self._verify_together(list(runs.values()), builds, cases, self._at_once())
            for (i, candidate), future in zip(runs.items(), verified, strict=True):
                assert future is not None
                ran[i] = outcome = _take(future)
                if isinstance(outcome, Exception) or not outcome[0].ok:
                    failed.add(i)
                else:
                    self._screened |= {
                        u.code_key: pick_region(outcome[0], u.region.id) for u in candidate.units
                    }
            waiting = [i for i in waiting if i not in failed]
        return ran

    def compute_truth(self, regions: Sequence[Region]) -> None:
        """Compute what is right for units of these regions on the inputs that are kept, ahead of the first of them."""
        with self._guard_trusted("no expected values"):
            for case in self.plan.screen(self._own):
                for region in regions:
                    with self.evidence.lock:
                        self.evidence.region(case, region).hold()

    def build_for_screening(self, candidates: Sequence[Candidate]) -> None:
        """Build all into the cache, side by side, for who then screens them one after another."""
        variants = [c.variant for c in self.plan.screen(self._own)]
        self._build(candidates, variants)

    def _screen_one(
        self, candidate: Candidate, built: Built, alike: Mapping[str, str], ran: Ran | None
    ) -> Result:
        seconds = {"build": built.seconds}
        if built.status != "ok":
            return self._result(candidate, built, Outcome(built.status, built.reason), seconds=seconds)
        if isinstance(ran, Exception):
            self._revive(False)
            return self._result(candidate, built, Outcome("error", str(ran)), seconds=seconds)
        seconds["screen"] = ran[1] if ran is not None else 0.0
        if ran is not None and not ran[0].ok:
            outcome = Outcome(ran[0].status, ran[0].reason)
            return self._result(candidate, built, outcome, ran[0], seconds=seconds)
        verification = reduce(join, (self._screened[u.code_key] for u in list_first(candidate, alike)))
        unit_us = {r: verification.unit_us[f] for r, f in alike.items() if f in verification.unit_us}
        verification = replace(verification, unit_us=unit_us)
        bare = self._result(candidate, built, Outcome("error", SCREENED), seconds=seconds)
        timing = estimate(candidate, self.task.graph, self.node_us, unit_us, self.baselines, self.target.name)
        profile = self._profile_units(candidate, Outcome(), verification)
        return Result.model_validate(
            dict(bare) | {"status": "screened", "timing": timing.restate(self.limit), "profile": profile}
        )

    @contextmanager
    def _short_patience(self) -> Iterator[None]:
        """Give up soon what hangs: it holds the device from the others. Units of a candidate share a process: whether they are right
        each by itself is for the verdict.
        """
        limits = self.verifier.limits
        self.verifier.limits = replace(limits, timeout=min(limits.timeout, MIN_PATIENCE_S), one_process=True)
        try:
            yield
        finally:
            self.verifier.limits = limits


def _take(future: Future[Verified]) -> Ran:
    """Return what came of a run, or the loss of a trusted process beside it."""
    try:
        return future.result()
    except (WorkerDied, WorkerTimeout, WorkerFailed) as error:
        return error


def list_first(candidate: Candidate, alike: Mapping[str, str]) -> list[Unit]:
    """Return the units that speak for all of the candidate: of units with one code for equal layers the first. `alike`: see `find_alike`."""
    return [u for u in candidate.units if alike[u.region.id] == u.region.id]


def find_alike(graph: Graph, candidate: Candidate) -> dict[str, str]:
    """Return region id → the first region of the candidate that equals it and has the same code: it speaks for both."""
    twins = find_twins(graph, [u.region for u in candidate.units])
    first: dict[tuple[str, ...], str] = {}
    alike = {}
    for unit in candidate.units:
        code = (
            (unit.source, str(sorted(unit.values.items())), *unit.flags)
            if unit.compiled
            else (unit.code_key,)
        )
        alike[unit.region.id] = first.setdefault((twins[unit.region.id], *code), unit.region.id)
    return alike


def estimate(
    candidate: Candidate, graph: Graph, node_us: Mapping[str, float], unit_us: Mapping[str, float],
    baselines: Mapping[str, BaselineTiming], target: str,
) -> Timing:  # fmt: skip
    """Put together what a candidate may take: its units alone and a call of each, and the operations that it leaves to ATen, scaled so
    that all of these take what the reference takes. `node_us`: of each operation alone. `unit_us`: by region.
    """
    covered = {name for unit in candidate.units for name in unit.region.nodes}
    alone = sum(node_us.get(n.name, 0.0) for n in graph.nodes)
    uncovered_us = sum(node_us.get(n.name, 0.0) for n in graph.nodes if n.name not in covered)
    working = [b for b in baselines.values() if b.ok]
    best = min(working, key=lambda b: b.median_us, default=None)
    eager = next((b.median_us for b in working if b.name == "eager"), alone)
    # Captured, the reference's operations follow one another as a candidate's do.
    reference_us = min([eager, *(b.median_us for b in working if b.name == CAPTURED)])
    own_us = sum(map(hardware_of(target).in_candidate_us, unit_us.values()))
    us = max(own_us + (uncovered_us * reference_us / alone if alone > 0 else 0.0), 1e-3)
    name, speedup = (best.name, best.median_us / us) if best is not None else ("eager", eager / us)
    ratio = Ratio(baseline=name, median=speedup, low=speedup / DOUBT, high=speedup * DOUBT)
    return Timing(
        median_us=us, low_us=us / DOUBT, high_us=us * DOUBT, cache="cold", samples=0, ratios=(), estimate=ratio,
        unit_us=dict(unit_us),
    )  # fmt: skip


__all__ = ["ScreeningJudge", "estimate", "find_alike"]
