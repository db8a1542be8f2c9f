"""Inputs and the truth about them, computed once by the trusted workers and kept while there is room.

In: a *case* (variant, input family, seed) and, for a unit, its region. Out: the raw input bytes the unit gets
and a budget for each of its outputs. `Evidence` is the supervisor's side of the reference worker; the files
lie in the run's scratch folder, the least recently used go first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy.typing as npt

from ...processes.buffers import Scratch, ValuesFile
from ...records import Graph, Region, Task, TensorSpec
from ..layout import Rows, noise_specs, oracle_specs, output_names, rows_of
from ..sample_rows import draw_rows_of_outputs
from ..timing.interleaved_rounds import TimedSample
from .error_budget import REACH, ErrorBudget
from .input_families import OWN
from .tolerance import Tolerance, Truth
from .workers import Workers

Array = npt.NDArray[Any]
ALL = slice(None)
APPEAL_DRAWS = 24  # of noise, with which what is doubtful is judged again
CALL_SECONDS = 300.0  # a trusted call that takes longer means a lost machine, not a slow task

Agrees = Callable[[Sequence[TensorSpec], Sequence[Array], "Path | None"], "tuple[float, float] | None"]


@dataclass(frozen=True)
class Case:
    variant: str
    family: str
    seed: int
    scaled_by: int | None = None  # seed of the own values that a family is scaled by; None: the same for all


@dataclass(frozen=True)
class RegionInputs:
    """The inputs of a region among the tensors of a file."""

    file: ValuesFile
    positions: Sequence[int]


class Expected:
    """The truth of some outputs, mapped from files. `valid`: the reference is finite on these inputs."""

    def __init__(
        self,
        stem: Path,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
        answer: dict[str, Any],
        rows: Sequence[slice] = (),
        more: Callable[[], Expected] | None = None,
        fetch: Callable[[], object] | None = None,
        agrees: Agrees | None = None,
        elsewhere: RegionInputs | None = None,
    ):
        """`rows`: those of each output that `outputs` and the files hold; empty: all. `more`: the same truth from many
        draws of noise. `fetch`: writes the files of the outputs, where the truth is elsewhere; `agrees`: asks there. `elsewhere`: the inputs,
        where they are in no file of their own.
        """
        self.more, self._fetch, self._agrees, self._inputs_elsewhere = more, fetch, agrees, elsewhere
        self.stem, self._input_specs, self._output_specs = stem, inputs, outputs
        self.valid: bool = answer["finite"]
        self._draws, self._exact = answer["draws"], answer["exact"]
        self._error_budgets = [ErrorBudget(*a) if a is not None else None for a in answer["error_budgets"]]
        self._rows = tuple(rows)

    @cached_property
    def _region_inputs(self) -> RegionInputs:
        if self._inputs_elsewhere is not None:
            return self._inputs_elsewhere
        return RegionInputs(
            ValuesFile(Path(f"{self.stem}.inputs"), self._input_specs), range(len(self._input_specs))
        )

    @cached_property
    def inputs(self) -> list[Array]:
        """Raw bytes of the region's inputs."""
        return [self._region_inputs.file.raw(i) for i in self._region_inputs.positions]

    @cached_property
    def float_inputs(self) -> tuple[Array, ...]:
        """For forensics: the inputs of the outputs' own kind."""
        file = self._region_inputs.file
        return tuple(file.array(i) for i in self._region_inputs.positions if file.specs[i].dtype == "float32")

    def parts(self, arrays: Sequence[Array]) -> list[Array]:
        """Cut whole outputs to the rows that the truth is known of."""
        rows = self._rows or (ALL,) * len(arrays)
        return [part(a, r) for a, r in zip(arrays, rows, strict=True)]

    def hold(self) -> None:
        """Map the files now: they may be removed while this is in use."""
        _ = self.inputs, self.float_inputs
        if self._fetch is None:
            _ = self.tolerances

    def agree(self, raw: Sequence[Array], values_file: Path | None = None) -> tuple[float, float] | None:
        """(worst share of the budget, worst ulp) of outputs, raw bytes, that are right for sure as seen from where the truth is;
        None: look here. `values_file`: a file that contains them, if one does.
        """
        return self._agrees(self._output_specs, raw, values_file) if self._agrees is not None else None

    @cached_property
    def tolerances(self) -> list[Tolerance]:
        if self._fetch is not None:
            self._fetch()
        native = ValuesFile(Path(f"{self.stem}.native"), self._output_specs).arrays()
        oracle = ValuesFile(Path(f"{self.stem}.oracle"), oracle_specs(self._output_specs)).arrays()
        noise = ValuesFile(Path(f"{self.stem}.noise"), noise_specs(self._output_specs, self._draws)).arrays()
        truths = zip(self._output_specs, native, oracle, noise, self._draws, self._exact, strict=True)
        finite = True if self.valid else None  # all of them are, or somebody must look
        built = (Truth(s.dtype, a, b, c, max(d, 1), e, finite) for s, a, b, c, d, e in truths)
        return [Tolerance(t, budget) for t, budget in zip(built, self._error_budgets, strict=True)]

    @property
    def usable(self) -> bool:
        """True where these inputs can tell right from wrong: the reference is finite and keeps its budget."""
        return self.valid and all(a is None or a.steady for a in self._error_budgets)

    @cached_property
    def nbytes(self) -> int:
        """Files, and the tolerances' arrays of fp64."""
        files = sum(p.stat().st_size for p in self.stem.parent.glob(f"{self.stem.name}.*"))
        return files + 8 * sum(s.numel for s in self._output_specs)

    def remove(self) -> None:
        for path in self.stem.parent.glob(f"{self.stem.name}.*"):
            path.unlink(missing_ok=True)


class Evidence:
    """`lock` is to be held where several threads ask: the workers answer one at a time."""

    def __init__(self, task: Task, workers: Workers, scratch: Scratch, own_seed: int, capacity: int) -> None:
        """`own_seed`: of the own values that the other families are scaled by. `capacity`: bytes of files
        kept.
        """
        self.lock = threading.RLock()
        self.task, self.workers, self.scratch = task, workers, scratch
        self._own_seed, self._capacity = own_seed, capacity
        self._values: OrderedDict[Case, Path] = OrderedDict()
        self._expected: OrderedDict[tuple[Case, str], Expected] = OrderedDict()

    def values(self, case: Case) -> Path:
        """A values file for the case, in the order of the variant's graph inputs."""
        if case not in self._values:
            path = self.scratch.new("values")
            if case.family == OWN:
                self.workers.materialise(case.variant, case.seed, path)
            else:
                seed = self._own_seed if case.scaled_by is None else case.scaled_by
                own_values = self.values(Case(case.variant, OWN, seed))
                self.workers.call(
                    "inputs", CALL_SECONDS, variant=case.variant, family=case.family, seed=case.seed,
                    own=str(own_values),
                    path=str(path),
                )  # fmt: skip
            self._values[case] = path
        self._values.move_to_end(case)
        return self._values[case]

    def region(self, case: Case, region: Region) -> Expected:
        key = (case, region.id)
        if key not in self._expected:
            ask = self._ask_there if self.workers.device == "cuda" else self._ask
            self._keep(key, ask(case.variant, self.values(case), case.seed, region, case.family))
        self._expected.move_to_end(key)
        return self._expected[key]

    def whole(
        self, variant: str, values: Path, seed: int, draws: int | None = None, most: int | None = None,
        rows: Sequence[Rows] = (), tf32: bool = True, family: str = OWN,
    ) -> Expected:  # fmt: skip
        """Truth of the whole graph on the values of a file. Not kept: the caller removes it. `most`: elements of
        each output, in rows chosen in secret; None: all. `rows`: of each output, chosen before.
        """
        if most is not None:
            rows = draw_rows_of_outputs(self.task.variant(variant).graph, most)
        return self._ask(variant, values, seed, None, family, draws, rows, tf32=tf32)

    def whole_agrees(
        self, variant: str, sample: TimedSample, seed: int, draws: int | None, tf32: bool = True
    ) -> tuple[float, float] | None:
        """Compare what a timed call of the whole graph returned, as `Expected.agree` does."""
        if self.workers.device == "cpu":
            return None
        return self._compare_on_device(
            variant=variant, values=str(sample.file), perturbed=sample.perturbed, outputs=str(sample.outputs), seed=seed,
            draws=draws, rows=sample.rows, tf32=tf32,
        )  # fmt: skip

    def _compare_on_device(self, **fields: Any) -> tuple[float, float] | None:
        answer = self.workers.call("agrees", CALL_SECONDS, **fields)
        return (float(answer["worst"]), float(answer["ulp"])) if answer["agrees"] else None

    def _ask_there(self, variant: str, values: Path, seed: int, region: Region, family: str) -> Expected:
        """The truth of a region, which stays on the device."""
        graph, stem = self.task.variant(variant).graph, self.scratch.new("expected")
        inputs, outputs = (tuple(graph.specs[n] for n in names) for names in (region.inputs, region.outputs))
        fields = {
            "variant": variant, "values": str(values), "seed": seed, "region": region.model_dump(mode="json"), "family": family,
        }  # fmt: skip
        inputs_in_graph = graph_inputs(graph, region, values)
        answer = self.workers.call(
            "truth", CALL_SECONDS, stem=str(stem) if inputs_in_graph is None else "", **fields
        )

        def fetch() -> None:
            with self.lock:
                if not Path(f"{stem}.noise").exists():  # the last of the files: another thread may have asked
                    self.workers.call("expected", CALL_SECONDS, stem=str(stem), **fields)

        def more() -> Expected:
            with self.lock:
                return self._ask(variant, values, seed, region, family, None, (), APPEAL_DRAWS)

        def agrees(
            specs: Sequence[TensorSpec], raw: Sequence[Array], values_file: Path | None
        ) -> tuple[float, float] | None:
            if values_file is not None:
                with self.lock:
                    return self._compare_on_device(outputs=str(values_file), **fields)
            file = ValuesFile(self.scratch.new("outputs"), specs, create=True)
            try:
                for number, output in enumerate(raw):
                    file.raw(number)[:] = output
                with self.lock:
                    return self._compare_on_device(outputs=str(file.path), **fields)
            finally:
                file.remove()

        return Expected(stem, inputs, outputs, answer, (), more, fetch, agrees, inputs_in_graph)

    def _ask(
        self, variant: str, values: Path, seed: int, region: Region | None, family: str,
        draws: int | None = None, rows: Sequence[Rows] = (), least: int = 1,
        tf32: bool = True,
    ) -> Expected:  # fmt: skip
        graph, stem = self.task.variant(variant).graph, self.scratch.new("expected")
        inputs = tuple(graph.specs[i] for i in region.inputs) if region else ()
        outputs = tuple(graph.specs[o] for o in (region.outputs if region else output_names(graph)))
        answer = self.workers.call(
            "expected", CALL_SECONDS, variant=variant, values=str(values), stem=str(stem), seed=seed,
            draws=draws, least=least, rows=rows, reach=REACH if least > 1 else 1.0,
            region=region.model_dump(mode="json") if region else None, family=family, tf32=tf32,
        )  # fmt: skip
        outputs = tuple(rows_of(s, *r) for s, r in zip(outputs, rows, strict=True)) if rows else outputs

        def more() -> Expected:
            with self.lock:
                return self._ask(variant, values, seed, region, family, None, rows, APPEAL_DRAWS, tf32)

        slices = [slice(*r) for r in rows]
        return Expected(stem, inputs, outputs, answer, slices, None if least > 1 else more)

    def _keep(self, key: tuple[Case, str], made: Expected) -> None:
        self._expected[key] = made
        room = self._capacity - made.nbytes
        for oldest in list(self._expected)[:-1]:
            room -= self._expected[oldest].nbytes
        for oldest in list(self._expected)[:-1]:
            if room >= 0:
                break
            room += self._expected[oldest].nbytes
            self._expected.pop(oldest).remove()

    def forget(self, case: Case) -> None:
        """Drop a case's values and all that was derived from them."""
        path = self._values.pop(case, None)
        if path is not None:
            path.unlink(missing_ok=True)
        for key in [k for k in self._expected if k[0] == case]:
            self._expected.pop(key).remove()


def graph_inputs(graph: Graph, region: Region, values: Path) -> RegionInputs | None:
    """Find what a region reads among the graph's own inputs in a file; None where nodes make some of it."""
    positions = {item.name: index for index, item in enumerate(graph.inputs)}
    if not set(region.inputs) <= set(positions):
        return None
    return RegionInputs(
        ValuesFile(values, [i.spec for i in graph.inputs]), [positions[n] for n in region.inputs]
    )


def part(array: Array, rows: slice, axis: int = 0) -> Array:
    """Some rows of an array; all of a scalar."""
    return array if array.ndim == axis else array[(slice(None),) * axis + (rows,)]


def check_outputs(
    expected: Expected, arrays: Sequence[Array], most: int | None = None, only: Sequence[int] | None = None
) -> tuple[bool, str, str, float, float]:
    """Compare outputs (all, or `only` those) with their truth: (ok, rule, detail, worst share of the budget,
    worst ulp). `most`: as in `Tolerance.compare`.

    What is over its budget by a little is judged again with many draws of noise: where some rows are far noisier than
    others, a few draws may all be small by luck, and the mean over like elements says little. Beside a kink, as a ReLU's,
    all may be zero, and the budget with them: what misses by less than is usual for the whole tensor is judged again, too.
    These draws disturb by as many standard deviations as an element may miss by, since of a billion elements some do lie so far
    from where rounding would have them, on the other side of the kink.
    """
    numbers = range(len(arrays)) if only is None else only
    result, doubtful = _compare_outputs(expected, arrays, numbers, most)
    if doubtful and expected.more is not None:
        refined = expected.more()
        result, _ = _compare_outputs(refined, arrays, numbers, None)
        refined.remove()
    return result


def _compare_outputs(
    expected: Expected, arrays: Sequence[Array], wanted: Sequence[int], most: int | None
) -> tuple[tuple[bool, str, str, float, float], bool]:
    """Return what `check_outputs` returns, and whether it is doubtful."""
    worst, ulp = 0.0, 0.0
    float_inputs = expected.float_inputs if expected._input_specs else ()
    for number in wanted:
        verdict = expected.tolerances[number].compare(arrays[number], float_inputs, most)
        if not verdict.ok:
            prefix = f"output {number}: " if len(arrays) > 1 else ""
            return (
                False,
                verdict.rule,
                prefix + verdict.detail,
                verdict.error,
                verdict.ulp,
            ), verdict.doubtful
        worst, ulp = max(worst, verdict.error), max(ulp, verdict.ulp)
    return (True, "", "", worst, ulp), False
