"""The judge of somebody else's `ModelNew`: the file in, a `SolutionVerdict` out.

The reference, its oracle, its baselines, the families of inputs and the stopwatch are those by which the judge's
own candidates are measured (`judge.judge_session`). The solution's Python runs in confined processes that the reference
never enters: one for each variant to verify it, a fresh one to time it against every baseline, and one more call
of that, untimed, to see which operations and libraries do the work. A unit's runner holds no torch and no Python;
this holds both, so its isolation is the lower one, and the verdict says so.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import WarpsmithError
from ..judge.correctness.evidence import Case
from ..judge.correctness.input_families import OWN
from ..judge.correctness.plan import MAIN_SEARCH
from ..judge.device.memory import count_checked_calls
from ..judge.judge_session import BASELINES, JudgeSession
from ..judge.labels import explain_too_fast, is_too_fast, precision
from ..judge.roofline.limits import hard_floor
from ..judge.timing.bench import CONFIRM_ROUNDS
from ..judge.timing.interleaved_rounds import BaselineLost, TimedSample
from ..processes.buffers import Scratch
from ..records import Check, Task, Timing
from ..targets.target import Target
from ..tasks.client import TaskHost
from ..tasks.secret_variant import draw_secret_variant
from .classify import classify, list_run_labels
from .client import OPEN_SECONDS, Starter
from .sampler import build_sampler
from .source import read_solution
from .trial import VALUE_RULES, Context, Fault, Found, Trial, fault_of
from .verdict import Label, SolutionVerdict, Trace, Traced

QUICK_ROUNDS = 12
SAMPLED = 1 << 20  # elements of each output of a timed call that are looked at
QUICK_FAMILIES = ("normal", "large", "huge")  # at shapes other than the main ones
ISOLATION = "in a Python process with torch (lower than a unit's runner)"


@dataclass
class _Finding:
    """The finding about one solution, as far as it got."""

    found: Found
    trial: Trial
    timing: Timing | None = None
    trace: Trace | None = None
    label: Label = "none"
    notes: list[str] = field(default_factory=list)
    fault: Fault | None = None


class SolutionJudge(JudgeSession):
    """A context manager: `open()` it once on a task, then `judge` solutions one after the other.

    `quick`: fewer families of inputs and fewer rounds of timing; every shape is still tried.
    """

    def open(self) -> None:
        self._weights = self._draw()
        self._judged = 0
        self._traced: Traced | None = None
        self._strided: bool | None = None  # whether the reference takes inputs that are not contiguous
        with TaskHost(self.task.source, scratch=self.scratch, exports=True) as host:
            self._add_secret_variant(host)
            super().open()
            init = {v.name: host.init_inputs(v.overrides) for v in self.task.variants}
        self._context = Context(
            self.task, self.evidence, self._starter, self.scratch, init, self._weights, self._done,
            self._takes_strided,
        )  # fmt: skip

    def _add_secret_variant(self, host: TaskHost) -> None:
        """Shapes that no solution's author can have read, drawn for this judge."""
        variant, self._no_secret_shape = draw_secret_variant(host, self.task, self._random)
        if variant is not None:
            self.task = self.task.model_copy(update={"variants": (*self.task.variants, variant)})

    def _start_bench(self) -> None:
        super()._start_bench()
        root = self._peaks_cache / "solutions"
        root.mkdir(parents=True, exist_ok=True)
        self._root = Path(tempfile.mkdtemp(prefix="judge-", dir=root))
        self._stack.callback(shutil.rmtree, self._root, ignore_errors=True)
        graphs = self.scratch.new("graphs")
        graphs.write_text(json.dumps({v.name: v.graph.model_dump(mode="json") for v in self.task.variants}))
        self._starter = self._stack.enter_context(
            Starter(
                graphs, self._root, self.scratch, threads=self.environment.threads,
                flush_bytes=self.bench.session.flush_bytes, device=self.device,
                sampler=build_sampler(self._peaks_cache, self._compiler) if self.device == "cpu" else None,
            )
        )  # fmt: skip

    def judge(self, source: Path, *, timed: bool = True) -> SolutionVerdict:
        """Raises UsageError when the file is no solution at all, JudgeError when a trusted process is lost."""
        text = read_solution(source)
        self._judged += 1
        folder = self._root / f"solution-{self._judged}"
        seconds: dict[str, float] = {}
        try:
            with self._guard_trusted("the judge lost a process"):
                finding = self._verify(source, text, folder, seconds)
                if finding.fault is None and timed:
                    self._time(finding, seconds)
                if not (finding.fault and finding.fault.cheats):
                    self._label(finding, folder, seconds)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return self._verdict(source, finding, seconds)

    def _verify(self, source: Path, text: str, folder: Path, seconds: dict[str, float]) -> _Finding:
        """With parameters taken over by name; where that gives wrong values, with those it was built with."""
        start = time.monotonic()
        self.progress("building and verifying it")
        trial = Trial(self._context, source.name, text, folder)
        with self.device_lock.hold_shared():
            finding = trial.verify(self._cases)
        notes = []
        if finding.fault is not None and finding.fault.rule in VALUE_RULES and trial.parameters == "name":
            self.progress("verifying it with the parameters that it was built with")
            retrial = Trial(self._context, source.name, text, folder, "seed")
            with self.device_lock.hold_shared():
                retried = retrial.verify(self._cases)
            if retried.fault is None:
                trial, finding = retrial, retried
                notes.append(
                    "it derives state from its parameters when it is built: later changes do not take"
                )
        seconds["verify"] = time.monotonic() - start
        return _Finding(finding, trial, fault=finding.fault, notes=[*notes, *finding.notes, *finding.refused])

    def _cases(self) -> Sequence[Case]:
        """Fresh seeds, drawn when the solution has been built."""
        self._fresh_values(3)
        if not self.quick:
            return [self._fresh[0], *self.plan.confirm(self._fresh[1], self._draw())]
        seed, main = self._draw(), self.task.main.name
        cases = [Case(v.name, f, seed) for v in self.task.variants[1:] for f in QUICK_FAMILIES]
        return [*self._fresh[:2], *(Case(main, f, seed) for f in MAIN_SEARCH), *cases]

    def _done(self, case: Case) -> None:
        """Large tasks have no room for the values of every case."""
        if case not in self._fresh:
            self.evidence.forget(case)

    def _time(self, finding: _Finding, seconds: dict[str, float]) -> None:
        """In a fresh process against every baseline; what the timed calls returned is checked, too."""
        start = time.monotonic()
        self.progress("timing it against every baseline")
        for attempt in (1, 2):
            try:
                self._measure(finding)
                if attempt == 2 or finding.fault is None or finding.fault.rule != "clock":
                    break
                finding.fault = None  # a busy machine can make clocks disagree; one that lies does so again
            except BaselineLost as error:
                if attempt == 2:
                    raise
                self.progress(f"restarting the baselines: {error}")
                self.bench.pool.restart(fresh_values=self._next_values)
        seconds["time"] = time.monotonic() - start

    def _measure(self, finding: _Finding) -> None:
        trial, main = finding.trial, self.task.main.name
        opponents = [self.bench.pool.process(n) for n, t in self.bench.pool.timings.items() if t.ok]
        values = [trial.values(case) for case in self._fresh]
        rounds = QUICK_ROUNDS if self.quick else CONFIRM_ROUNDS
        try:
            process = trial.start(main)
            with process.worker:
                run = self.bench.measure(
                    process, opponents, values, rounds=rounds, checks=count_checked_calls(self.task.graph)
                )
        except BaselineLost:
            raise
        except (WarpsmithError, OSError) as error:
            finding.fault = fault_of(error, "while it was timed")
            return
        finally:
            self._starter.empty()
        finding.timing = run.timing.model_copy(update={"confirmed": not self.quick})
        self.progress("checking what the timed calls returned")
        finding.fault = self._wrong_sample(finding, run.samples) or self._below_floor(run.timing)
        finding.timing = finding.timing.restate(self.limit)  # which may have been measured again

    def _wrong_sample(self, finding: _Finding, samples: Sequence[TimedSample]) -> Fault | None:
        checker, case = finding.trial.checker, Case(self.task.main.name, OWN, self._draw())
        for sample in samples:
            expected = self.evidence.whole(case.variant, sample.values, case.seed, None, SAMPLED)
            check: Check = checker.check(case, expected, sample.outputs)
            expected.remove()
            sample.remove()
            finding.found.checks.append(check)
            if not check.ok:
                return Fault(check.rule, check.detail, "while it was timed")
        return None

    def _below_floor(self, timing: Timing) -> Fault | None:
        if timing.median_us * 1e-6 < hard_floor(self.limit, self.task.graph):
            self._measure_limit(refresh=True)  # the peaks may have been measured on a busy machine
        floor = hard_floor(self.limit, self.task.graph)
        if timing.median_us * 1e-6 >= floor:
            return None
        return Fault("floor", f"{timing.median_us:.1f} us is below the memory floor of {floor * 1e6:.1f} us")

    def _label(self, finding: _Finding, folder: Path, seconds: dict[str, float]) -> None:
        """One more call, untimed: what runs in it decides the label."""
        start = time.monotonic()
        self.progress("tracing what runs")
        values = finding.trial.values(self._fresh[0])
        try:
            process = finding.trial.start(self.task.main.name)
            with process.worker:
                trace = _as_traced(process.trace(values))
                mapped = process.list_mapped_objects(folder / "build")
        except (WarpsmithError, OSError) as error:
            finding.notes.append(f"no label: it could not be traced ({error})")
            return
        finally:
            self._starter.empty()
            seconds["trace"] = time.monotonic() - start
        finding.trace = Trace(
            solution=trace, reference=self._trace_reference(),
            objects=tuple(m for m in mapped if not m.startswith("inductor/")),
            generated=tuple(m for m in mapped if m.startswith("inductor/")),
        )  # fmt: skip
        finding.label, why = classify(finding.trace, self.device)
        finding.notes.append(why)
        flops, timing = self.task.graph.flops, finding.timing
        if (
            finding.label == "kernel"
            and timing is not None
            and is_too_fast(flops, self.limit, timing.median_us)
        ):
            finding.label = "unexplained"
            finding.notes.append(explain_too_fast(flops, self.limit, timing.median_us))

    def _trace_reference(self) -> Traced:
        """Trace the task's own module, once, in a process of its own, and see whether it takes strided inputs."""
        if self._traced is None:
            folder, main = self._root / "reference", self.task.main.name
            process = self._starter.fork(folder)
            with process.worker:
                file = folder / "task.json"
                file.write_text(self.task.model_dump_json())
                process.worker.call("load_reference", OPEN_SECONDS, task_file=str(file), variant=main)
                self._strided = process.takes_strided(self.evidence.values(self._fresh[0]))
                self._traced = _as_traced(process.trace(self.evidence.values(self._fresh[0])))
            self._starter.empty()
            shutil.rmtree(folder, ignore_errors=True)
        return self._traced

    def _takes_strided(self) -> bool:
        self._trace_reference()
        return bool(self._strided)

    def _list_notes(self) -> list[str]:
        return [f"no secret shape: {self._no_secret_shape}"] if self._no_secret_shape else []

    def _verdict(self, source: Path, finding: _Finding, seconds: dict[str, float]) -> SolutionVerdict:
        fault, measured, timing = finding.fault, finding.found, finding.timing
        admitted = self.admission.admitted
        labels = (
            "specialised" if measured.refused else "contiguous-inputs-only" if measured.contiguous_only else "general",
            "deterministic" if measured.deterministic else "nondeterministic",
            precision(self.task.graph), *(("other-strides",) if measured.other_strides else ()),
            *(("ignores-parameters",) if finding.trial.parameters == "seed" else ()),
            *(list_run_labels(finding.trace) if finding.trace is not None else ()),
            *(("no-secret-shape",) if self._no_secret_shape else ()),
            *(() if admitted else ("quarantined",)),
        )  # fmt: skip
        reasons = [fault.reason] if fault else []
        if not admitted:
            reasons.append(
                f"{self.task.name} is quarantined, so this proves little: {self.admission.reasons[0]}"
            )
        speedup = {r.baseline: r for r in timing.ratios} if timing and fault is None else {}
        if speedup and timing is not None and timing.best is not None:
            speedup["best"] = timing.best
        return SolutionVerdict(
            solution=str(source), task=self.task.name, target=self.target.name,
            verdict="correct" if fault is None else "invalid" if fault.cheats else "incorrect",
            label=finding.label, labels=labels, rule=fault.rule if fault else "",
            reasons=(*reasons, *finding.notes, *self._list_notes()), speedup=speedup, parameters=finding.trial.parameters,
            isolation=f"{finding.trial.isolation or 'none reached'}, {ISOLATION}", checks=tuple(measured.checks),
            timing=timing, trace=finding.trace, hardware=self.environment.hardware, seed=self.seed,
            seconds={k: round(v, 3) for k, v in {**self.seconds, **seconds}.items()},
        )  # fmt: skip


def judge_solution(
    source: Path, task: Task, target: Target, *, scratch: Scratch, cache: Path, seed: int,
    baselines: Sequence[str] = BASELINES, progress: Callable[[str], None] = lambda text: None, timed: bool = True,
) -> SolutionVerdict:  # fmt: skip
    """Judge one file on one task; not `timed`: only whether it is right, and its label. Raises UsageError, TaskError, ToolchainError, JudgeError."""
    read_solution(source)
    judge = SolutionJudge(
        task, target, scratch=scratch, workdir=scratch.new("run"), seed=seed, progress=progress,
        baselines=baselines, peaks_cache=cache,
    )  # fmt: skip
    with judge:
        judge.open()
        return judge.judge(source, timed=timed)


def _as_traced(answer: dict[str, Any]) -> Traced:
    return Traced.model_validate({k: answer.get(k) for k in Traced.model_fields})
