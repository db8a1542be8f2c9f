"""One workload of `models.py`: optimized as a whole, then measured and compared beside eager and compiled code.

In: a workload, its model and the options. Out: the columns of a row.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from models_workloads import Run, Workload

import warpsmith
from warpsmith.composition.compose import copy_model
from warpsmith.composition.outputs import collect_outputs
from warpsmith.composition.parity import Truth, find_truth
from warpsmith.composition.side_by_side import Blocks, measure_side_by_side
from warpsmith.config import Config
from warpsmith.errors import UsageError
from warpsmith.judge.device.device_lock import DeviceLock, lock_file
from warpsmith.progress import PlainObserver
from warpsmith.records import Ratio

Row = dict[str, Any]
EAGER, AGAIN, COMPOSED = "eager", "eager again", "composed"
RIVALS = ("compile", "reduce-overhead", "max-autotune")
OURS = (COMPOSED, "composed-compiled")
# Of the speedup of eager over itself; beyond them the machine was too busy.
MOST_DIFFERENCE, WIDEST_INTERVAL = 0.03, 0.3


class Session:
    """All that is done with one model."""

    def __init__(
        self, workload: Workload, model: torch.nn.Module, options: argparse.Namespace, config: Config, tell: Callable[[str], None]
    ) -> None:  # fmt: skip
        self.workload, self.model, self.options = workload, model, options
        self.config, self.tell = config, tell
        self.run = workload.make_run(model, options.size, False)
        self.compiled_run = workload.make_run(model, options.size, True)
        self.variants: dict[str, Callable[[], Any]] = {}
        self.lock = DeviceLock(lock_file(options.device))

    def measure(self) -> Row:
        """Optimize, measure and compare."""
        self.tell("running it eagerly")
        row = self._describe_model()
        self.tell("optimize_model")
        row |= self._optimize()
        self.tell("compiling")
        row["not_run"] = self._make_variants(row.pop("composed_model"))
        self.tell("comparing the outputs")
        row |= self._compare()
        self.tell("measuring side by side")
        row |= self._measure_gains()
        return row | judge_row(row)

    def _describe_model(self) -> Row:
        self.run(self.model)
        started_s = time.perf_counter()
        self.run(self.model)
        parameters = list(self.model.parameters())
        return {
            "class": type(self.model).__name__, "parameters": sum(p.numel() for p in parameters),
            "dtype": str(parameters[0].dtype).removeprefix("torch."), "eager_s": round(time.perf_counter() - started_s, 5),
        }  # fmt: skip

    def _optimize(self) -> Row:
        """The result of `optimize_model`; where it takes nothing, the reason, and what a capture shows."""
        started_s = time.monotonic()
        try:
            result = warpsmith.optimize_model(
                self.model, self.run, self.options.time, seed=self.options.seed, config=self.config, observer=PlainObserver(),
            )  # fmt: skip
        except UsageError as error:
            with warpsmith.capture(self.model, config=self.config) as seen:
                self.run(self.model)
            seconds = round(time.monotonic() - started_s, 1)
            return {
                "refused": str(error),
                "captured": str(seen),
                "optimize_s": seconds,
                "composed_model": None,
            }
        return {
            "optimize_s": round(time.monotonic() - started_s, 1), "predicted": result.predicted,
            "promised": result.recording.workload.gain, "captured": str(result.recording), "report": result.report(),
            "measured_by_it": list_ratio(result.speedup), "composed_model": result.model if result.speedup else None,
            "regions": [
                {
                    "name": layers.name, "layers": len(layers.paths), "in_model": layers.in_model, "reason": layers.reason,
                    "speedup": list_ratio(layers.speedup), "predicted": layers.predicted_gain,
                }
                for layers in result.layers
            ],
        }  # fmt: skip

    def _make_variants(self, composed: torch.nn.Module | None) -> dict[str, str]:
        """Everything to measure, compiled and warm; returns why each other one does not run."""
        self.variants = {EAGER: partial(self.run, self.model), AGAIN: partial(self.run, self.model)}
        chosen: dict[str, tuple[torch.nn.Module, str]] = {
            "compile": (self.model, "default"), "reduce-overhead": (self.model, "reduce-overhead"),
            "max-autotune": (self.model, "max-autotune"),
        }  # fmt: skip
        if composed is not None:
            self.variants[COMPOSED] = partial(self.run, composed)
            chosen["composed-compiled"] = (composed, "default")
        not_run: dict[str, str] = {}
        for name, (model, mode) in chosen.items():
            if name in self.options.variants:
                self.tell(f"compiling: {name}")
                run = make_compiled(model, mode, self.compiled_run)
                # Autotuning is work on the device that no measurement of another run should lie beside.
                with self.lock.hold_shared() if mode == "max-autotune" else nullcontext():
                    reason = find_failure(run)
                if reason:
                    not_run[name] = reason
                else:
                    self.variants[name] = run
        return not_run

    def _compare(self) -> Row:
        """What each variant's run returns, against the original's."""
        truth = find_truth(self.run, self.model, self.options.seed)
        parity = {
            name: compare_results(truth, run, self.options.seed) for name, run in self.variants.items() if name != AGAIN
        }  # fmt: skip
        return {"parity": parity, "oracle": truth.oracle is not None, "chaos": truth.find_chaos()}

    def _measure_gains(self) -> Row:
        with self.lock.hold_exclusive():
            blocks = measure_side_by_side(
                {name: partial(_give, run) for name, run in self.variants.items()}, self.options.measure, self.options.seed
            )  # fmt: skip
        rivals = [name for name in RIVALS if name in self.variants]
        gains = {
            baseline: {
                name: list_ratio(blocks.compare(baseline, name)) for name in self.variants if name != baseline
            }
            for baseline in (EAGER, *rivals)
        }  # fmt: skip
        return {"gains": gains, "medians_ms": find_medians_ms(blocks), "rounds": len(blocks.times_ns[EAGER])}


def make_compiled(model: torch.nn.Module, mode: str, run: Run) -> Callable[[], Any]:
    """The run of a copy of the model that `torch.compile` compiles in place; parameters are shared. Each call of it is a step of CUDA graphs: else
    a model in several graphs fails as one of them runs again, which takes the results of the others for overwritten.
    """
    compiled = copy_model(model)
    compiled.compile(mode=mode)
    call = compiled._compiled_call_impl
    assert call is not None

    def call_as_step(*args: Any, **kwargs: Any) -> Any:
        torch.compiler.cudagraph_mark_step_begin()
        return call(*args, **kwargs)

    compiled._compiled_call_impl = call_as_step
    return partial(run, compiled)


def find_failure(run: Callable[[], Any], warmups: int = 3) -> str:
    """Why a run fails; empty for one that is warm now."""
    try:
        for _ in range(warmups):
            run()
    except Exception as error:  # noqa: BLE001 - a compiler may raise anything
        return f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]
    return ""


def compare_results(truth: Truth, run: Callable[[], Any], seed: int) -> Row:
    """Compare what a run returns; what the model answers on its way is left out, since compiled code runs no new hook."""
    results: list[Any] = []

    def keep_result(_: Any) -> Any:
        results.append(run())
        return results[0]

    outputs = collect_outputs(keep_result, torch.nn.Identity(), seed)
    last = slice(-len(outputs), None)
    oracle = None if truth.oracle is None else truth.oracle[last]
    native = truth.native[last]
    parity = Truth(native, [draw[last] for draw in truth.draws], oracle).compare(outputs)
    row: Row = {"ok": parity.ok, "error": parity.error, "detail": parity.detail}
    same_shapes = [t.shape for t in native] == [t.shape for t in outputs]
    integers = [
        (a, b) for a, b in zip(native, outputs, strict=False) if same_shapes and not a.is_floating_point()
    ]
    if integers:
        row["tokens"] = [sum(int((a == b).sum()) for a, b in integers), sum(a.numel() for a, _ in integers)]
    if (loss := find_loss(results[0])) is not None:
        row["loss"] = loss
    return row


def find_loss(result: Any) -> float | None:
    """The loss that a run returns: by name, or a first scalar."""
    loss = getattr(result, "loss", None)
    if (
        loss is None
        and isinstance(result, tuple)
        and result
        and torch.is_tensor(result[0])
        and not result[0].dim()
    ):
        loss = result[0]
    return None if loss is None else float(loss)


def judge_row(row: Row) -> Row:
    """The status of a row, and its reason in one line."""
    gains, parity = row["gains"], row["parity"]
    wrong = [name for name in OURS if name in parity and not parity[name]["ok"]]
    if wrong and not row["chaos"]:
        return {"status": "wrong", "reason": f"{wrong[0]}: {parity[wrong[0]]['detail']}"}
    if trouble := find_noise(gains[EAGER][AGAIN]):
        return {"status": "too-busy", "reason": trouble}
    if "refused" in row:
        return {"status": "refused", "reason": row["refused"]}
    if COMPOSED not in gains[EAGER]:
        return {"status": "no-win", "reason": "optimize_model kept the original"}
    over_eager, best = gains[EAGER][COMPOSED], find_best(gains)
    text = f"composed over eager {format_ratio(over_eager)}, predicted {row['predicted']:.2f}x"
    if best is None:
        return {"status": "over-eager" if over_eager[1] > 1 else "no-win", "reason": text}
    ours, rival, ratio = best
    text += f"; {ours} over {rival} {format_ratio(ratio)}"
    status = "win" if ratio[1] > 1 else "over-eager" if over_eager[1] > 1 else "no-win"
    return {"status": status, "reason": text}


def find_noise(ratio: list[float]) -> str:
    """Why the machine was too busy, from the speedup of eager over itself; empty where it was not."""
    median, low, high = ratio
    if not low <= 1 <= high and abs(median - 1) > MOST_DIFFERENCE:
        return f"two runs of the same model differed: {format_ratio(ratio)}"
    if high - low > WIDEST_INTERVAL:
        return f"two runs of the same model could not be told apart by less than {high - low:.0%}: {format_ratio(ratio)}"
    return ""


def find_best(gains: Mapping[str, Mapping[str, list[float]]]) -> tuple[str, str, list[float]] | None:
    """Our faster variant against the fastest rival, eager among them, by medians; None where nothing was compiled."""
    rivals = [name for name in RIVALS if name in gains]
    if not rivals:
        return None
    eager = gains[EAGER]
    ours = max((name for name in OURS if name in eager), key=lambda name: eager[name][0])
    rival = max((EAGER, *rivals), key=lambda name: 1.0 if name == EAGER else eager[name][0])
    return ours, rival, gains[rival][ours]


def find_medians_ms(blocks: Blocks) -> dict[str, float]:
    medians = {}
    for name, several in blocks.times_ns.items():
        times = sorted(t for block in several for t in block)
        medians[name] = round(times[len(times) // 2] / 1e6, 4)
    return medians


def list_ratio(ratio: Ratio | None) -> list[float] | None:
    return None if ratio is None else [ratio.median, ratio.low, ratio.high]


def format_ratio(ratio: list[float]) -> str:
    return f"{ratio[0]:.2f}x [{ratio[1]:.2f}, {ratio[2]:.2f}]"


def describe_versions() -> dict[str, str]:
    versions = {"torch": torch.__version__}
    for name in ("warpsmith", "transformers", "diffusers"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "missing"
    return versions


def _give(run: Callable[[], Any]) -> Callable[[], Any]:
    return run
