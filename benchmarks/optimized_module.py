"""One module through `warpsmith.optimize`, and what came back compared with the original.

In: a module and a function that builds its arguments from a seed. Out: a row of plain data: status, speedup, seconds by
stage, and whether the returned module answers like a copy of the original on the example inputs and on fresh ones, with
the same classes and with the same changes to caches that were given. `model_zoo.py` and `gpu_blocks.py` share it.
"""

from __future__ import annotations

import argparse
import copy
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from item_processes import read_seconds
from same_outputs import difference, shared_objects

import warpsmith
from warpsmith.archive.store import Archive
from warpsmith.config import Config
from warpsmith.errors import TaskError
from warpsmith.progress import PlainObserver
from warpsmith.records import Best, Budget, RunSummary

Row = dict[str, Any]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Inputs = Callable[[int], Arguments]
TRACEBACK_LINES = 12
NOT_COVERED = "the expert has no kernel and no library alternative"
EXAMPLE, FRESH = 0, 1  # seeds of inputs


def measure_item(
    make_module: Callable[[], torch.nn.Module], make_inputs: Callable[[torch.nn.Module, int], Arguments],
    options: argparse.Namespace, target: str,
) -> Row:  # fmt: skip
    """The row of an item in its own process and folder; what goes wrong before `optimize` is called is an error, too."""
    folder = Path(tempfile.gettempdir())  # the parent gave this process a folder of its own
    config = Config.load(
        {"archive": folder / "archive.db", "cache": folder / "cache", "baselines": options.baselines}
    )
    budget = Budget(seconds=options.time, evaluations=options.evaluations or None)
    copy_peaks(options.cache, config.cache)
    try:
        module = make_module()
        return measure_module(
            module, lambda seed: make_inputs(module, seed), target=target, budget=budget, config=config,
            seed=options.seed,
        )  # fmt: skip
    except Exception as error:  # noqa: BLE001 - every outcome is a row
        return describe_error(error)
    finally:
        copy_peaks(config.cache, options.cache)


def copy_peaks(source: Path, folder: Path) -> None:
    """What was measured of this machine is measured once."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in source.glob("peaks-*.json"):
        shutil.copy(file, folder)


def add_search_options(
    parser: argparse.ArgumentParser, time_s: float, evaluations: int, baselines: list[str] | None
) -> None:
    parser.add_argument(
        "--time", type=read_seconds, default=time_s, help="for the search of one item: 20s, 2m"
    )
    parser.add_argument(
        "--evaluations", type=int, default=evaluations, help="candidates to judge an item; 0: no limit"
    )
    parser.add_argument(
        "--baselines", nargs="+", default=baselines,
        help="eager compile compile-max-autotune (all); what is compiled takes up to a minute an item, twice",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "warpsmith-benchmarks",
        help="folder for what is measured of this machine once",
    )  # fmt: skip


SEARCH_OPTIONS = ("time", "evaluations", "baselines", "seed", "cache")  # to pass on to an item's process


def measure_module(
    module: torch.nn.Module, inputs: Inputs, *, target: str, budget: Budget, config: Config, seed: int
) -> Row:
    """The row of a module. What `optimize` raises is a row; what the model itself raises goes to the caller."""
    reference = copy.deepcopy(module)
    row = describe_module(reference, inputs)
    args, kwargs = inputs(EXAMPLE)
    start = time.monotonic()
    try:
        optimized = warpsmith.optimize(
            module,
            args,
            kwargs,
            target=target,
            budget=budget,
            seed=seed,
            config=config,
            observer=PlainObserver(),
        )
    except TaskError as error:
        return row | {"status": "refused", "reason": str(error), "seconds": _since(start)}
    except Exception as error:  # noqa: BLE001 - every outcome is a row
        return row | describe_error(error) | {"seconds": _since(start)}
    row |= {
        "seconds": _since(start),
        "example_changed": difference(inputs(EXAMPLE), (args, kwargs), "inputs"),
    }
    row |= describe_run(optimized, config)
    try:
        row |= compare_calls(reference, optimized, inputs)
    except Exception as error:  # noqa: BLE001
        return row | describe_error(error)
    if row["example"] or row["fresh"] or row["example_changed"]:
        row |= {"status": "wrong", "reason": row["example"] or row["fresh"] or row["example_changed"]}
    return row


def describe_module(module: torch.nn.Module, inputs: Inputs) -> Row:
    """The class, its size, and what a call returns."""
    args, kwargs = inputs(EXAMPLE)
    with torch.no_grad():
        module(*args, **kwargs)
        args, kwargs = inputs(EXAMPLE)
        start = time.monotonic()
        output = module(*args, **kwargs)
    return {
        "class": type(module).__name__, "parameters": sum(p.numel() for p in module.parameters()),
        "output": type(output).__name__, "eager_seconds": round(time.monotonic() - start, 4),
    }  # fmt: skip


def describe_run(optimized: Any, config: Config) -> Row:
    """What the run's summary says, and the size of the graph."""
    summary: RunSummary = optimized.summary
    archive = Archive(config.archive)
    task = archive.task(archive.run(summary.run_id).task_id)
    covered = NOT_COVERED not in summary.reason
    row: Row = {
        "status": summary.status if covered else "not covered", "reason": summary.reason,
        "nodes": len(task.graph.nodes) if task is not None else 0, "report": optimized.report(),
        "evaluations": summary.evaluations, "judged": summary.stages, "baselines": summary.baselines,
        "seconds_by_stage": summary.seconds_by_stage, "stopped": summary.stopped,
    }  # fmt: skip
    return row | describe_best(summary.best)


def describe_best(best: Best | None) -> Row:
    if best is None:
        return {}
    ratio = best.speedup
    return {
        "speedup": [ratio.median, ratio.low, ratio.high], "baseline": ratio.baseline, "label": best.label,
        "eager_speedup": best.speedup_eager.median, "median_us": best.median_us, "limit_share": best.limit_share,
    }  # fmt: skip


def compare_calls(reference: torch.nn.Module, optimized: Any, inputs: Inputs) -> Row:
    """The first difference of the two modules on the example and on fresh inputs, and who answered."""
    calls = {"example": EXAMPLE, "fresh": FRESH}
    row: Row = {name: compare_call(reference, optimized, inputs, seed) for name, seed in calls.items()}
    names = ("fast_calls", "fallbacks", "last_fallback")
    return row | {name: getattr(optimized, name) for name in names}


def compare_call(reference: torch.nn.Module, optimized: torch.nn.Module, inputs: Inputs, seed: int) -> str:
    """Outputs, arguments after the call, and which arguments were returned."""
    (args, kwargs), (own_args, own_kwargs) = inputs(seed), inputs(seed)
    with torch.no_grad():
        expected, answer = reference(*args, **kwargs), optimized(*own_args, **own_kwargs)
    text = difference(expected, answer) or difference(
        (args, kwargs), (own_args, own_kwargs), "inputs after the call"
    )
    shared, own_shared = shared_objects(kwargs, expected), shared_objects(own_kwargs, answer)
    if not text and shared != own_shared:
        return f"fields that are an argument itself: {own_shared or 'none'}, not {shared or 'none'}"
    return text


def describe_error(error: BaseException) -> Row:
    """One line, and the end of the traceback."""
    text = " ".join(str(error).split())
    lines = "".join(traceback.format_exception(error)).splitlines()
    return {
        "status": "error", "reason": f"{type(error).__name__}: {text}"[:2000],
        "traceback": lines[-TRACEBACK_LINES:],
    }  # fmt: skip


def _since(start: float) -> float:
    return round(time.monotonic() - start, 1)
