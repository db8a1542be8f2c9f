"""The reference worker: the trusted side's torch process. It interprets exported graphs and never runs the
task's Python.

Requests name files: a task's JSON, values files in the graph's input order, and stems of files to write.
Answers are small. For each set of outputs it writes `<stem>.native` (as the graph has them), `<stem>.oracle`
(float64; integers as they are) and `<stem>.noise` (see `oracle.py`), and for a region also `<stem>.inputs`:
what the unit gets, taken from the native run of the whole graph. `truth_specs` says how those files are laid
out; the supervisor reads them with it. On CUDA all of it is computed there, with torch's own defaults for
TF32, and the fp64 oracle in fp64.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

import torch

from ...processes.worker import serve
from ...records import Graph, Region, Task, TensorSpec
from ...runtime.in_place import find_in_place_updates, run_in_place
from ...runtime.interpreter import run_graph
from ...runtime.tensors import copied_to, open_tensors, write_tensors
from ..device.eviction import flush_bytes
from ..device.patience import PATIENCE_S, PAUSE_S
from ..device.tf32 import allowing_tf32
from ..layout import FLOATS, noise_specs, oracle_specs, output_names, rows_of
from ..timing.cuda_clock import flush_for
from ..timing.input_perturbation import Slice
from ..timing.stopwatch import list_sorted, memory, perturb
from .error_budget import HALVES, ErrorBudget, Piece, compute_error_budget
from .family_values import TOP_EXPONENT, fill
from .input_families import BOUNDED, SECRET
from .intermediates import Intermediates
from .magnitude import find_largest_exponent
from .mutants import DroppedOp, mutants
from .on_device_comparison import PIECE, compare_on_device
from .oracle import Oracle, TruthTensors
from .stepping import Stepper, Tensors, ancestors, check_layout, check_stated, on_device, rounds, subgraph
from .tolerance import Tolerance, Truth

PROFILE_REPEATS = 7
LEAD_READS = 8  # of memory as large as a GPU's cache, before a call that is timed there: the host has called it all before they end
KEPT_BYTES = 2 << 30  # of truths that stay on the device
INTERMEDIATE_BYTES = 1 << 30  # of a graph's values, which its regions read
IDLE_BYTES = 1 << 30  # of the GPU's memory, which the worker may hold unused
TF32_TWIN = "10-bit mantissa"  # the mutant that computes everything as if in TF32
Handler = Callable[..., Any]
CUDNN = ("conv", "lstm", "gru", "rnn")  # parts of the names of ops that torch gives to cuDNN


@dataclass(frozen=True)
class OutputTruth:
    """An output's truth and error budget. As in `tolerance.Tolerance` the truth's noise is what each element may miss by, where
    there is a rule for the whole.
    """

    name: str
    truth: TruthTensors
    rule: ErrorBudget | None

    @classmethod
    def from_truth(cls, name: str, dtype: str, truth: TruthTensors) -> OutputTruth:
        element, rule = split_budget(dtype, truth)
        return cls(name, replace(truth, noise=element), rule)

    @property
    def draws(self) -> int:
        return self.truth.draws if rounds(self.truth.native) else self.truth.noise.shape[0]

    @property
    def rule_fields(self) -> tuple[float, bool] | None:
        return (self.rule.rms, self.rule.steady) if self.rule is not None else None

    @property
    def nbytes(self) -> int:
        """Bytes of the device's memory that it takes."""
        tensors = (self.truth.native, self.truth.oracle, self.truth.noise)
        return sum(t.numel() * t.element_size() for t in tensors)


class Reference:
    """State of the worker: tasks, and oracles per (variant, region)."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._oracles: dict[tuple[str, str, bool], Oracle] = {}
        self._task = ""
        self._device = "cpu"
        self._graphs: dict[tuple[str, str], Graph] = {}
        self._kept: OrderedDict[tuple[Any, ...], list[OutputTruth]] = OrderedDict()
        self._exponents: dict[tuple[str, str, str], int | None] = {}  # of bounded families
        self._intermediates = Intermediates(INTERMEDIATE_BYTES)

    def open(self, task_file: str, threads: int, device: str = "cpu") -> dict[str, Any]:
        """`device` "cpu" or "cuda": where everything is computed. Files stay in host memory."""
        torch.set_num_threads(threads)
        self._device = device
        task = Task.model_validate_json(Path(task_file).read_bytes())
        self._tasks[task.id], self._task = task, task.id
        return {"task": task.id}

    def inputs(self, variant: str, family: str, seed: int, own: str, path: str) -> None:
        """Write a family's values. Magnitudes of a bounded family are lowered to what the reference can compute."""
        items = self._graph(variant).inputs
        exponent: int | None = None
        written: list[int | None] = []

        def write(exponent: int | None) -> None:
            fill(family, seed, items, Path(own), Path(path), self._device, exponent)
            written.append(exponent)

        def usable(exponent: int) -> bool:
            write(exponent)
            return self._can_judge(variant, path, seed, family)

        if family in BOUNDED:
            key = (self._task, variant, family if family != SECRET else f"{SECRET} {seed}")
            if key not in self._exponents:
                self._exponents[key] = find_largest_exponent(usable, TOP_EXPONENT)
            exponent = self._exponents[key]
        if written[-1:] != [exponent]:
            write(exponent)

    def _can_judge(self, variant: str, values: str, seed: int, family: str) -> bool:
        """Return whether the reference is finite on these values and keeps its own budget."""
        graph = self._graph(variant)
        names, truths = self._truths(variant, values, "", seed, None, family, 1)
        outputs = [OutputTruth.from_truth(n, graph.specs[n].dtype, truths[n]) for n in names]
        return all(o.truth.finite and (o.rule is None or o.rule.steady) for o in outputs)

    def compute_truth(
        self, variant: str, values: str, stem: str, seed: int, region: Any = None, family: str = "",
        draws: int | None = None, least: int = 1, rows: Sequence[tuple[int, int]] = (), reach: float = 1.0,
        tf32: bool = True,
    ) -> dict[str, Any]:  # fmt: skip
        """Compute and write the truth of the whole graph, or of a region on the native values of its inputs. `draws`: of noise, at
        the most, and at the `least`; `reach`: see `Oracle.truths`. `rows`: those of each output that are wanted, from and to; all
        where there are none.
        `tf32`: whether float32 may be computed in TF32 where torch does by default.
        """
        graph = self._graph(variant)
        with allowing_tf32(tf32):
            names, truths = self._truths(variant, values, stem, seed, region, family, draws, least, reach)
        return self._write(graph, names, truths, stem, rows)

    def _truths(
        self, variant: str, values: str, stem: str, seed: int, region: Any, family: str, draws: int | None, least: int = 1,
        reach: float = 1.0, perturbed: Sequence[Slice] = (),
    ) -> tuple[tuple[str, ...], dict[str, TruthTensors]]:  # fmt: skip
        """Names of the outputs, and their truths. Of a region, its inputs are written under the stem, if there is one."""
        graph = self._graph(variant)
        tensors = self._values(graph, values, perturbed)
        if region is not None:
            region = Region.model_validate(region)
            tensors = self._region_inputs(variant, values, graph, tensors, region, stem)
        oracle = self._oracle(variant, graph, region)
        truths = oracle.truths(tensors, seed, family=family, most_draws=draws, least_draws=least, reach=reach)
        return oracle.outputs, truths

    def _region_inputs(
        self, variant: str, values: str, graph: Graph, tensors: Tensors, region: Region, stem: str
    ) -> Tensors:
        """Native values of a region's inputs, written under the stem, if there is one."""
        native: Tensors | None = tensors
        if not set(region.inputs) <= tensors.keys():
            native = self._intermediates.find((self._task, variant, values), graph, tensors)
        if native is None:
            native = Stepper(ancestors(graph, region.inputs)).run(tensors, region.inputs)
        inputs = {name: native[name] for name in region.inputs}
        if stem:
            specs = [graph.specs[i] for i in region.inputs]
            write_tensors(Path(f"{stem}.inputs"), specs, [inputs[i] for i in region.inputs])
        return inputs

    def truth(
        self, variant: str, values: str, stem: str, seed: int, region: Any = None, family: str = ""
    ) -> dict[str, Any]:
        """Compute the truth of a region as `compute_truth` does; but it stays here, for `agrees`, and only the inputs are written."""
        truths = self._find_truths(variant, values, stem, seed, region, family, None)
        return {
            "finite": all(k.truth.finite for k in truths), "draws": [k.draws for k in truths],
            "exact": [k.truth.exact for k in truths], "error_budgets": [k.rule_fields for k in truths],
        }  # fmt: skip

    def agrees(
        self, variant: str, values: str, outputs: str, seed: int, region: Any = None, family: str = "",
        draws: int | None = None, rows: Sequence[tuple[int, int]] = (), perturbed: Sequence[Slice] = (), tf32: bool = True,
    ) -> dict[str, Any]:  # fmt: skip
        """Say whether outputs in a file surely agree with the truth (see `on_device_comparison.py`): {"agrees", "worst", "ulp"}. `perturbed`:
        slices of the values that were halved before the call.
        """
        specs = self._graph(variant).specs
        with allowing_tf32(tf32):
            truths = self._find_truths(variant, values, "", seed, region, family, draws, rows, perturbed)
        layouts = [specs[k.name] for k in truths]
        if rows:
            layouts = [rows_of(s, *r) for s, r in zip(layouts, rows, strict=True)]
        worst, ulp = 0.0, 0.0
        for expected, spec, output in zip(truths, layouts, self._load(layouts, outputs), strict=True):
            shares = compare_on_device(spec.dtype, expected.truth, expected.rule, output)
            if shares is None:
                return {"agrees": False}
            worst, ulp = max(worst, shares[0]), max(ulp, shares[1])
        return {"agrees": True, "worst": worst, "ulp": ulp}

    def _find_truths(
        self, variant: str, values: str, stem: str, seed: int, region: Any, family: str, draws: int | None,
        rows: Sequence[tuple[int, int]] = (), perturbed: Sequence[Slice] = (),
    ) -> list[OutputTruth]:  # fmt: skip
        """Each output's truth and budget; those of a region are kept while there is room."""
        key = (variant, values, seed, tuple(region["nodes"]) if region is not None else ())
        graph = self._graph(variant)
        if key in self._kept:
            self._kept.move_to_end(key)
            if stem:
                region_values = self._values(graph, values)
                self._region_inputs(
                    variant, values, graph, region_values, Region.model_validate(region), stem
                )
            return self._kept[key]
        names, truths = self._truths(variant, values, stem, seed, region, family, draws, perturbed=perturbed)
        result = []
        for number, name in enumerate(names):
            truth = truths[name].rows(*rows[number]) if rows else truths[name]
            result.append(OutputTruth.from_truth(name, graph.specs[name].dtype, truth))
        if region is not None:
            self._keep(key, result)
        return result

    def _keep(self, key: tuple[Any, ...], found: list[OutputTruth]) -> None:
        room = KEPT_BYTES - sum(k.nbytes for k in found)
        if room < 0:
            return
        self._kept[key] = found
        for oldest in list(self._kept)[:-1]:
            if sum(k.nbytes for entry in self._kept.values() for k in entry) <= KEPT_BYTES:
                break
            del self._kept[oldest]

    def outputs(self, variant: str, values: str, path: str) -> None:
        """Native outputs of the whole graph, in order."""
        graph = self._graph(variant)
        names = output_names(graph)
        results = Stepper(graph).run(self._values(graph, values), names)
        write_tensors(Path(path), [graph.specs[n] for n in names], [results[n] for n in names])

    def run_stated(
        self, variant: str, rewrite: Any, inputs: list[str], outputs: list[str], values: str, path: str,
        calls: int = 0, cold: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        """Run a unit that is its own rewrite on values of its region's inputs: write its outputs to a file, or return the nanoseconds of
        `calls` calls. Raises TaskError for what does not run or makes something else than the region.
        """
        specs, stated = self._graph(variant).specs, Graph.model_validate(rewrite)
        graph = stated if self._device == "cpu" else on_device(stated, self._device)
        check_stated(graph, specs, inputs, outputs)
        tensors = dict(zip(inputs, self._load([specs[n] for n in inputs], values), strict=True))
        if not calls:
            results = run_graph(graph, tensors, wanted=set(outputs))
            check_layout(results, specs)
            write_tensors(Path(path), [specs[n] for n in outputs], [results[n] for n in outputs])
            return {"nanoseconds": []}
        flush = flush_for(self._device, flush_bytes(torch.get_num_threads()) if cold else 0)
        spent = []
        for _ in range(calls):
            spent.append(self._nanoseconds(lambda: run_graph(graph, tensors, wanted=set(outputs)), flush))
        return {"nanoseconds": spent}

    def mutate(
        self, variant: str, values: str, others: str, seed: int, dropped: int, family: str, known: list[str],
        seconds: float | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Which rule catches each mutant on these values; "" where none does. `same`: no bit differs from the
        reference, or only roundings were left out. `known`: mutants that need no further look. `untried`: those for which the `seconds` do not suffice.
        `not_finite`: outputs of the reference that hold NaN or inf, where nothing can be told.
        """
        end = inf if seconds is None else time.monotonic() + seconds
        graph = self._graph(variant)
        tensors = self._values(graph, values)
        oracle = self._oracle(variant, graph, None)
        truths = oracle.truths(tensors, seed, family=family)
        not_finite = [name for name, truth in truths.items() if not truth.finite]
        if not_finite:
            return {"valid": False, "not_finite": not_finite}
        judged = {o: (t, make_tolerance(graph.specs[o].dtype, t)) for o, t in truths.items()}
        other_tensors = self._values(graph, others)
        caught, same, untried, longest = {}, [], [], 0.0
        for name, mutant in mutants(graph, oracle.outputs, tensors, other_tensors, dropped).items():
            if name in known or (name == TF32_TWIN and self._in_tf32(graph)):
                continue  # the TF32 twin is what the reference itself does
            begin = time.monotonic()
            if begin + longest > end:
                untried.append(name)
                continue
            results = mutant()
            if all(torch.equal(results[o], t.native) for o, (t, _) in judged.items()):
                same.append(name)
                caught[name] = ""
            else:
                rules = (budget.find_broken_rule(to_numpy(results[o])) for o, (_, budget) in judged.items())
                caught[name] = next(filter(None, rules), "")
                if not caught[name] and isinstance(mutant, DroppedOp) and mutant.only_rounds():
                    same.append(name)
            longest = max(longest, time.monotonic() - begin)
        return {"valid": True, "caught": caught, "same": same, "untried": untried}

    def profile_nodes(self, variant: str, values: str) -> dict[str, Any]:
        """Median microseconds of each node run alone as ATen; inputs are warm on a CPU, and cold on a GPU, as units are timed there.
        A node that updates an input is timed as it is deployed: on a copy, which is made before.
        """
        graph = self._graph(variant)
        stepper, spent = Stepper(graph), {}
        in_place = find_in_place_updates(graph, graph.nodes)
        flush = flush_for(self._device, 1) if self._device != "cpu" else None

        def measure(node: Any, read: Tensors, made: Tensors) -> Tensors:
            work: Callable[[], object] = partial(stepper.step, node, read)
            if node.name in in_place:
                updated = node.args[0]["v"]
                work = partial(
                    run_in_place, in_place[node.name], node, read | {updated: read[updated].clone()}
                )
            runs = []
            for _ in range(PROFILE_REPEATS):
                runs.append(self._nanoseconds(work, flush))
                if sum(runs) > 0.3e9:
                    break
            spent[node.name] = median(runs) / 1e3
            return made

        stepper.run(self._values(graph, values), output_names(graph), outward=measure)
        return {"microseconds": spent}

    def release_memory_after(self, handler: Handler) -> Handler:
        """Wrap a handler: after it the GPU's memory is given back where it is much: timed processes need it, too, but to give it
        back takes longer than many a request. Where there is none left, other runs may have it for a while: it is tried again.
        """

        def handle(**fields: Any) -> Any:
            end = time.monotonic() + PATIENCE_S
            while True:
                try:
                    return handler(**fields)
                except torch.OutOfMemoryError:
                    if self._device == "cpu" or time.monotonic() > end:
                        raise
                    self._kept.clear()
                    self._intermediates.clear()
                finally:
                    if self._device == "cuda" and _idle_bytes() > IDLE_BYTES:
                        torch.cuda.empty_cache()
                time.sleep(PAUSE_S)  # when what the failed try held is let go

        return handle

    def _in_tf32(self, graph: Graph) -> list[str]:
        """The nodes that torch computes in TF32 here: by default cuDNN's convolutions and RNNs."""
        on = self._device == "cuda" and torch.backends.cudnn.allow_tf32
        return [n.name for n in graph.nodes if on and any(part in n.op for part in CUDNN)]

    def _nanoseconds(self, work: Callable[[], object], flush: torch.Tensor | None) -> int:
        """Time a call after `flush` was read, if there is any. On a GPU it is then read so often that the host has launched all of
        the call before the GPU begins with it: only the GPU's own time counts, however long the host takes to launch.
        """
        if self._device == "cpu":
            if flush is not None:
                flush.sum()
            start = time.perf_counter_ns()
            work()
            return time.perf_counter_ns() - start
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        if flush is not None:
            for _ in range(LEAD_READS):
                flush.sum()
        before.record()
        work()
        after.record()
        after.synchronize()
        return int(before.elapsed_time(after) * 1e6)

    def _graph(self, variant: str) -> Graph:
        key = (self._task, variant)
        if key not in self._graphs:
            graph = self._tasks[self._task].variant(variant).graph
            self._graphs[key] = graph if self._device == "cpu" else on_device(graph, self._device)
        return self._graphs[key]

    def _oracle(self, variant: str, graph: Graph, region: Region | None) -> Oracle:
        key = (f"{self._task} {variant}", region.id if region else "", torch.backends.cudnn.allow_tf32)
        if key not in self._oracles:
            if region is None:
                self._oracles[key] = Oracle(graph, output_names(graph), self._in_tf32(graph))
            else:
                part = subgraph(graph, region.nodes, region.inputs, region.outputs)
                self._oracles[key] = Oracle(part, region.outputs, self._in_tf32(part))
        return self._oracles[key]

    def _values(self, graph: Graph, path: str, perturbed: Sequence[Slice] = ()) -> Tensors:
        tensors = self._load([i.spec for i in graph.inputs], path)
        if perturbed and self._device == "cpu":  # what is on a device is a copy anyway
            tensors = [memory(t).clone().as_strided(t.shape, t.stride()) for t in tensors]
        fixed = list_sorted(tensors) if perturbed else ()
        for index, *bounds in perturbed:
            if index not in fixed:
                perturb(memory(tensors[index]), *bounds)
        return {i.name: t for i, t in zip(graph.inputs, tensors, strict=True)}

    def _load(self, specs: Sequence[TensorSpec], path: str) -> list[torch.Tensor]:
        tensors = open_tensors(Path(path), specs)
        return tensors if self._device == "cpu" else [copied_to(t, self._device) for t in tensors]

    def _write(
        self, graph: Graph, names: Sequence[str], truths: dict[str, TruthTensors], stem: str,
        rows: Sequence[tuple[int, int]],
    ) -> dict[str, Any]:  # fmt: skip
        specs = [graph.specs[n] for n in names]
        finite = all(truths[n].finite for n in names)
        tensors = [truths[n] for n in names]
        if rows:
            tensors = [t.rows(*r) for t, r in zip(tensors, rows, strict=True)]
            specs = [rows_of(s, *r) for s, r in zip(specs, rows, strict=True)]
        known_outputs = [
            OutputTruth.from_truth(n, s.dtype, t) for n, s, t in zip(names, specs, tensors, strict=True)
        ]
        draws = [k.draws for k in known_outputs]
        write_tensors(Path(f"{stem}.native"), specs, [t.native for t in tensors])
        write_tensors(Path(f"{stem}.oracle"), oracle_specs(specs), [t.oracle for t in tensors])
        write_tensors(
            Path(f"{stem}.noise"), noise_specs(specs, draws), [k.truth.noise for k in known_outputs]
        )
        return {
            "finite": finite, "draws": draws, "exact": [t.exact for t in tensors],
            "error_budgets": [k.rule_fields for k in known_outputs],
        }  # fmt: skip


def split_budget(dtype: str, made: TruthTensors) -> tuple[torch.Tensor, ErrorBudget | None]:
    """Return what each element may miss by, and the rule for the whole; the noise as it is where values are compared otherwise."""
    if dtype not in FLOATS or made.exact:
        return made.noise, None
    native, oracle, noise = (t.reshape(-1) for t in (made.native, made.oracle, made.noise))
    elements, at = torch.empty_like(oracle), 0

    def pieces() -> Iterator[Piece]:
        for start in range(0, oracle.numel(), PIECE[oracle.device.type]):
            part = slice(start, start + PIECE[oracle.device.type])
            ideal = oracle[part].to(native.dtype).double() if dtype in HALVES else None
            yield Piece(native[part].double(), oracle[part], noise[part], ideal)

    def keep(piece: torch.Tensor) -> None:
        nonlocal at
        elements[at : at + piece.numel()] = piece
        at += piece.numel()

    rule = compute_error_budget(torch, dtype, made.draws, pieces, keep)
    return elements.view(made.oracle.shape), rule


def make_tolerance(dtype: str, made: TruthTensors) -> Tolerance:
    """Make what compares arrays (see `to_numpy`) with this truth of an output of that dtype."""
    elements, rule = split_budget(dtype, made)
    native, oracle, noise = (to_numpy(t) for t in (made.native, made.oracle, elements))
    return Tolerance(Truth(dtype, native, oracle, noise, made.draws, made.exact), rule)


def _idle_bytes() -> int:
    """Bytes of the GPU's memory that this process has and does not use."""
    return int(torch.cuda.memory_reserved() - torch.cuda.memory_allocated())


def to_numpy(tensor: torch.Tensor) -> Any:
    """Return the tensor as an array on the host; bfloat16 as its bits."""
    tensor = tensor.cpu()
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.uint16).numpy()
    if tensor.is_floating_point() and not rounds(tensor):
        return tensor.contiguous().view(torch.uint8).numpy()
    return tensor.contiguous().numpy()


def main() -> None:
    torch.set_grad_enabled(False)
    reference = Reference()
    handlers: dict[str, Handler] = {
        "open": reference.open, "inputs": reference.inputs, "expected": reference.compute_truth,
        "truth": reference.truth, "agrees": reference.agrees, "outputs": reference.outputs, "stated": reference.run_stated,
        "mutate": reference.mutate, "profile_nodes": reference.profile_nodes,
    }  # fmt: skip
    serve({name: reference.release_memory_after(handler) for name, handler in handlers.items()})


if __name__ == "__main__":
    main()
