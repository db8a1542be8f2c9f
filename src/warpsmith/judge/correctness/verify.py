"""Verification that a candidate's units compute what their regions compute, without trusting them.

In: built units and the cases to try. Out: one `Check` per unit and case; the first failure ends it. Each unit
runs in the isolated runner (`isolation/runner.py`) on the native values of its region's inputs, twice: with two NaN
patterns in the outputs, at moved addresses, guard bands around every buffer. An element that keeps the
poison, a touched guard, a changed input, a second run that differs, or a value outside its budget fails.
A unit in ATen is interpreted by the reference worker instead (`aten_runner.py`).
`check_whole` judges the outputs of timed runs the same way, against the whole graph.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...processes import bulk
from ...processes.buffers import NUMPY_DTYPE, Scratch, ValuesFile
from ...records import Build, Candidate, Check, Region, Status, Task, TensorSpec, Unit
from ..device.device_lock import DeviceLock
from ..isolation.arena import POISON
from ..isolation.cuda_runner import CudaRunner
from ..isolation.runner import (
    CandidateRunner,
    NoRoom,
    RunnerCrashed,
    RunnerFailed,
    RunnerLied,
    RunnerTimeout,
    RunOutput,
)
from ..layout import output_names, rows_of
from ..timing.balance import balance
from ..timing.interleaved_rounds import TimedSample
from .aten_runner import AtenRunner
from .evidence import Case, Evidence, Expected, check_outputs
from .input_families import OWN

Array = npt.NDArray[Any]
Raw = npt.NDArray[np.uint8]
FEW_DRAWS = 2  # of noise for a whole graph while searching: it is pooled over like elements
LARGEST = 1e30  # stands for "beyond any budget" in a record


@dataclass(frozen=True)
class Limits:
    """Limits of one runner process."""

    timeout: float = 20.0  # seconds a call may take
    memory_bytes: int = 2 << 30
    threads: int = 1
    compiler: str | None = None  # builds the runner; see `machine.find_compiler`
    one_process: bool = False  # for all CUDA units of a candidate: to make a context takes longer than all that a unit does in it


@dataclass(frozen=True)
class Verification:
    checks: tuple[Check, ...] = ()
    status: Status = "ok"
    reason: str = ""
    isolation: str = ""
    unit_us: dict[str, float] = field(default_factory=dict)  # region id → median of a call alone
    least_us: dict[str, float] = field(default_factory=dict)  # the same, the shortest call
    skipped: tuple[str, ...] = ()  # families on which the reference itself is not finite
    unit_balance: dict[str, float] = field(default_factory=dict)  # see `balance.py`; what was measured

    @property
    def ok(self) -> bool:
        return self.status == "ok"


Libraries = Mapping[tuple[str, str], Build]  # (variant, Unit.code_key) → build
# The units of one runner with their libraries by variant, in the order in which they are run.
Loads = Sequence[tuple[Unit, Mapping[str, Path]]]
Runner = CandidateRunner | AtenRunner


class Verifier:
    def __init__(
        self,
        task: Task,
        evidence: Evidence,
        scratch: Scratch,
        limits: Limits,
        device_lock: DeviceLock | None = None,
    ) -> None:
        self.task, self.evidence, self.scratch, self.limits = task, evidence, scratch, limits
        self._device_lock = device_lock or DeviceLock()

    def verify(
        self,
        candidate: Candidate,
        builds: Libraries,
        cases: Sequence[Case],
        timed: int = 0,
        stand_in: str = "",
        most: int | None = None,
    ) -> Verification:
        """Run every unit on every case; a (variant, unit) without a build is skipped. May be called from
        several threads at a time: each stays the parent of its runners.

        `timed`: runs of each unit timed alone. `stand_in`: a family that is used only where no other one
        before it could be. `most`: elements of an output whose values are looked at; None: all.
        """
        done = Verification()
        for loads in self._share_out(candidate, builds, dict.fromkeys(c.variant for c in cases)):
            done = join(done, self._verify_loads(loads, cases, timed, stand_in, most))
            if not done.ok:
                break
        return done

    def _share_out(
        self, candidate: Candidate, builds: Libraries, variants: Collection[str]
    ) -> Iterator[Loads]:
        """Share out what was built to runners: one for each unit, or one for all CUDA units."""
        together: list[tuple[Unit, Mapping[str, Path]]] = []  # in one runner
        for unit in sorted(candidate.units, key=lambda u: u.compiled):  # isolation is the last one's
            libraries = {
                v: Path(builds[v, unit.code_key].library) for v in variants if (v, unit.code_key) in builds
            }
            if libraries and unit.language == "cuda" and self.limits.one_process:
                together.append((unit, libraries))
            elif libraries:
                yield [(unit, libraries)]
        if together:
            yield together

    def _verify_loads(
        self, loads: Loads, cases: Sequence[Case], timed: int, stand_in: str, most: int | None
    ) -> Verification:
        checks: list[Check] = []
        verified = Verification()
        try:
            with self._runner(loads) as runner:
                for index, (unit, variant) in enumerate((u, v) for u, libraries in loads for v in libraries):
                    if index:
                        with self._worker_of(runner), self._device_lock.hold_shared():
                            runner.pick(index)
                    usable, skipped = self._usable(
                        [c for c in cases if c.variant == variant], unit.region, stand_in
                    )
                    for case, expected in usable:
                        check = self._check(unit, case, expected, runner, most)
                        checks.append(check)
                        if not check.ok:
                            return Verification(tuple(checks), "incorrect", _reason(check), runner.isolation)
                    alone = timed if usable and variant == self.task.main.name else 0
                    verified = join(verified, self._alone(unit, runner, alone, skipped))
            return replace(verified, checks=tuple(checks))
        except RunnerTimeout as error:
            return Verification(tuple(checks), "timeout", str(error))
        except RunnerCrashed as error:
            return Verification(tuple(checks), "crashed", str(error))
        except RunnerLied as error:
            return Verification(tuple(checks), "invalid", str(error))
        except NoRoom as error:
            return Verification(tuple(checks), "error", str(error))
        except RunnerFailed as error:
            return Verification(tuple(checks), "refused", str(error))

    def _alone(self, unit: Unit, runner: Runner, calls: int, skipped: Sequence[str]) -> Verification:
        """Measure a unit alone that is right at a variant's shapes."""
        microseconds = self._alone_us(runner, calls) if calls else []
        unit_us = {unit.region.id: float(np.median(microseconds))} if calls else {}
        return Verification(
            (), "ok", "", runner.isolation, unit_us, {unit.region.id: min(microseconds)} if calls else {}, tuple(skipped),
            self._balance(unit, runner, unit_us),
        )  # fmt: skip

    def _alone_us(self, runner: Runner, calls: int) -> list[float]:
        """Microseconds of some calls, with nobody else's on the device."""
        with self._worker_of(runner), self._device_lock.hold_exclusive():
            return [ns / 1e3 for ns in runner.time(calls, True)]

    def _worker_of(self, runner: Runner) -> AbstractContextManager[object]:
        """The reference worker, where it is what runs the unit: to be held before the device, since whoever else holds the worker
        waits for the device.
        """
        return self.evidence.lock if isinstance(runner, AtenRunner) else nullcontext()

    def _balance(self, unit: Unit, runner: Runner, unit_us: dict[str, float]) -> dict[str, float]:
        """Measure how evenly the threads of a timed unit share its work; the last use of its runner."""
        if unit.language != "c++" or not unit_us or isinstance(runner, AtenRunner):
            return {}
        region = unit.region.id
        with self._device_lock.hold_exclusive():
            share = balance(runner, self.limits.threads, unit_us[region])
        return {} if share is None else {region: share}

    def _usable(
        self, cases: Sequence[Case], region: Region, stand_in: str
    ) -> tuple[list[tuple[Case, Expected]], list[str]]:
        """The cases on which the reference is sound (own inputs count anyway), and the others' names."""
        usable: list[tuple[Case, Expected]] = []
        skipped = []
        for case in cases:
            if case.family == stand_in and any(c.family != OWN for c, _ in usable):
                continue
            with self.evidence.lock:
                expected = self.evidence.region(case, region)
                sound = expected.usable or case.family == OWN
                if sound:
                    expected.hold()
            if sound:
                usable.append((case, expected))
            else:
                skipped.append(f"{case.variant}/{case.family}")
        return usable, skipped

    def _runner(self, loads: Loads) -> Runner:
        unit, libraries = loads[0]
        if not unit.compiled:
            return AtenRunner(unit, self.task, list(libraries), self.evidence, self.scratch)
        works = []
        for region, variant, library in ((u.region, v, p) for u, paths in loads for v, p in paths.items()):
            specs = self.task.variant(variant).graph.specs
            inputs, outputs = ([specs[n] for n in names] for names in (region.inputs, region.outputs))
            works.append((library, inputs, outputs))
        (library, inputs, outputs), *later = works
        kind = CudaRunner if unit.language == "cuda" else CandidateRunner
        with self._device_lock.hold_shared():
            return kind(
                library, inputs, outputs, scratch=self.scratch, threads=self.limits.threads,
                timeout=self.limits.timeout,
                memory_bytes=self.limits.memory_bytes, compiler=self.limits.compiler, later=later,
            )  # fmt: skip

    def _check(self, unit: Unit, case: Case, expected: Expected, runner: Runner, most: int | None) -> Check:
        base = Check(variant=case.variant, family=case.family, where=unit.region.id, ok=True)
        runs = []
        for poison in (0, 1):
            with self._worker_of(runner), self._device_lock.hold_shared():
                runs.append(runner.run(expected.inputs, poison))
        for run in runs:
            if not run.guard_ok:
                return _fail(base, "guard", f"wrote outside a buffer: {run.guard_detail}")
            if not run.inputs_unchanged:
                return _fail(base, "input-mutated", f"the input {run.input_detail} was changed")
        specs = [self.task.variant(case.variant).graph.specs[name] for name in unit.region.outputs]
        for spec, first, second in zip(specs, runs[0].outputs, runs[1].outputs, strict=True):
            failed = _compare_runs(base, unit, spec, first, second)
            if failed is not None:
                return failed
        return self._within_budget(base, expected, specs, runs if unit.atomics else runs[:1], most)

    def _within_budget(
        self, base: Check, expected: Expected, specs: Sequence[TensorSpec], runs: Sequence[RunOutput],
        most: int | None,
    ) -> Check:  # fmt: skip
        check = base
        for run in runs:
            shares = expected.agree(run.outputs, run.values_file)
            if shares is not None:
                ok, rule, detail, (error, ulp) = True, "", "", shares
            else:
                arrays = [view_typed(raw, spec) for raw, spec in zip(run.outputs, specs, strict=True)]
                ok, rule, detail, error, ulp = check_outputs(expected, arrays, most)
            check = replace_check(base, ok, rule, detail, max(error, check.error), max(ulp, check.ulp))
            if not ok:
                break
        return check

    def check_whole(
        self, variant: str, sample: TimedSample, seed: int, draws: int = FEW_DRAWS, tf32: bool = True
    ) -> Check:
        """The outputs of a timed run on what it was given (whole graph, as `output_names` orders them). `tf32`: whether the
        reference may compute in TF32 where torch does by default.
        """
        graph = self.task.variant(variant).graph
        specs = [graph.specs[n] for n in output_names(graph)]
        if sample.rows:
            specs = [rows_of(s, *r) for s, r in zip(specs, sample.rows, strict=True)]
        base = Check(variant=variant, family=OWN, where="whole", ok=True)
        shares = self.evidence.whole_agrees(variant, sample, seed, draws, tf32)
        if shares is not None:
            return replace_check(base, True, "", "", *shares)
        expected = self.evidence.whole(variant, sample.values, seed, draws, rows=sample.rows, tf32=tf32)
        try:
            arrays = ValuesFile(sample.outputs, specs).arrays()
            ok, rule, detail, error, ulp = check_outputs(expected, arrays)
        finally:
            expected.remove()
        return replace_check(base, ok, rule, detail, error, ulp)


def _compare_runs(base: Check, unit: Unit, spec: TensorSpec, one: Raw, two: Raw) -> Check | None:
    """The two runs of one output: what differs was never written, or is not deterministic."""
    if bulk.is_same(one, two):
        return None
    a, b = view_typed(one, spec), view_typed(two, spec)
    width = f"u{a.dtype.itemsize}" if a.dtype.itemsize <= 8 else "u8"
    bits_a, bits_b = np.ascontiguousarray(a).view(width), np.ascontiguousarray(b).view(width)
    differ = bits_a != bits_b
    if not differ.any():
        return None
    at = [int(i) for i in np.argwhere(differ)[0]]
    if all(
        np.isin(bits[differ], _poison(word, width)).all()
        for bits, word in ((bits_a, POISON[0]), (bits_b, POISON[1]))
    ):
        return _fail(
            base,
            "nan-poison",
            f"{int(differ.sum())} of {differ.size} elements were never written, first at {at}",
        )
    if unit.atomics:
        return None
    return _fail(
        base, "nondeterministic",
        f"{int(differ.sum())} of {differ.size} elements differ between two runs on the same inputs, "
        f"first at {at}",
    )  # fmt: skip


def _poison(word: int, width: str) -> Array:
    """Return what an element that was never written holds: the pattern, at either alignment for single bytes."""
    return np.unique(np.full(4, word, np.uint16).view(width))


def view_typed(raw: Raw, spec: TensorSpec) -> Array:
    """View raw bytes of a tensor as a strided array of its type (bfloat16 as bits)."""
    dtype: np.dtype[Any] = np.dtype(NUMPY_DTYPE[spec.dtype])
    if spec.numel == 0:
        return np.empty(spec.shape, dtype)
    strides = [s * dtype.itemsize for s in spec.stride]
    if dtype == np.bool_:
        dtype = np.dtype(np.uint8)  # a byte other than 0 and 1 must not pass for True
    return np.lib.stride_tricks.as_strided(raw.view(dtype), spec.shape, strides)


def replace_check(base: Check, ok: bool, rule: str, detail: str, error: float, ulp: float) -> Check:
    finite = [v if math.isfinite(v) else LARGEST for v in (error, ulp)]
    return base.model_copy(
        update={"ok": ok, "rule": rule, "detail": detail, "error": finite[0], "ulp": finite[1]}
    )


def _fail(base: Check, rule: str, detail: str) -> Check:
    return replace_check(base, False, rule, detail, LARGEST, 0.0)


def _reason(check: Check) -> str:
    return f"{check.rule} on {check.family} inputs ({check.variant}): {check.detail}"


def join(one: Verification, two: Verification) -> Verification:
    """Put what was found of some units and of others together; it stands as the second does."""
    return replace(
        two, checks=one.checks + two.checks, unit_us={**one.unit_us, **two.unit_us},
        isolation=two.isolation or one.isolation, skipped=one.skipped + two.skipped,
        unit_balance={**one.unit_balance, **two.unit_balance}, least_us={**one.least_us, **two.least_us},
    )  # fmt: skip


def pick_region(verification: Verification, region: str) -> Verification:
    """Return what was measured of one unit, by its region's id, without the checks."""
    return replace(
        verification, checks=(),
        unit_us={r: us for r, us in verification.unit_us.items() if r == region},
        least_us={r: us for r, us in verification.least_us.items() if r == region},
        unit_balance={r: share for r, share in verification.unit_balance.items() if r == region},
    )  # fmt: skip
