"""What tiles of the technique `flat` take on a GPU, and the rates (`implicit_gemm_warp_specialized_schedule.Rates`) that tell it best.

`look`: in: a checkout of KernelBench and a GPU. Out: JSON lines, a tile each: microseconds of the kernels `convolve` and `cast_to_fp16`, error
against float64; of each task the best tiles of each kind of crew, by the rates of now. Not judged (see `cuda_look.py`). `fit`: in: such rows. Out: the rates, and of
each task what they choose beside what was fastest. A tile that computes the same with other rates is looked at anew by `look` only.

    python lab/flat_tiles.py look KERNELBENCH OUT.jsonl --task level1/55 [--task …] [--tiles 8] [--seconds 300]
    python lab/flat_tiles.py fit results/h200/flat_tiles.jsonl --kernelbench KERNELBENCH     # needs scipy, which scikit-learn brings
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from math import exp, log
from pathlib import Path
from statistics import median
from tempfile import mkdtemp
from typing import Any

import torch
from cuda_expert import FACTS, files, hypotheses
from cuda_look import Gpu

from warpsmith.errors import UsageError, WarpsmithError
from warpsmith.kernels.conv.convolution_kinds import read_kind
from warpsmith.kernels.conv.cuda.cuda_convolution import CudaConvolution
from warpsmith.kernels.conv.schedules.implicit_gemm_warp_specialized_schedule import (
    RATES,
    ImplicitGemmWarpSpecializedSchedule,
    Load,
    Rates,
    Timed,
    rank_warp_specialized_schedules,
)
from warpsmith.kernels.registry import family_of
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Graph, Unit
from warpsmith.search.tuner import with_values
from warpsmith.targets.cuda import CudaTarget
from warpsmith.tasks.load import load_task

NAMES = tuple(name for name in ImplicitGemmWarpSpecializedSchedule.names().values() if name != "SM_COUNT")
FITTED = ("a_slice", "a_patch", "a_pass", "a_result", "fetched", "stored", "tensor")
FAR = 0.7  # a logarithm: what is further off than that does not count more
BUILDS = 16
Row = dict[str, Any]


def convolutions(graph: Graph) -> Iterator[tuple[str, Unit, tuple[Timed, ...]]]:
    """Each family that offers the technique for a part of the graph, its unit and all tiles, the most promising first."""
    seen = set()
    for idea in hypotheses(graph, FACTS, [], 1000):
        family = family_of(graph, idea.region, "cuda")
        if (
            idea.technique != "implicit-gemm-warp-specialized"
            or not isinstance(family, CudaConvolution)
            or family.name in seen
        ):
            continue
        seen.add(family.name)
        anchor = family.anchor(graph, idea.region)
        kind = read_kind(graph, anchor.node) if anchor is not None else None
        assert anchor is not None
        assert kind is not None
        full_channels = family.full_channel_constraint(graph, idea.region, anchor.node, kind)
        assert full_channels is not None
        technique = next(
            t
            for t in family.techniques(graph, idea.region, FACTS)
            if t.name == "implicit-gemm-warp-specialized"
        )
        found = rank_warp_specialized_schedules(
            kind, graph.specs[anchor.node.uses[0]].shape, anchor.node.output.spec.shape, full_channels
        )
        yield (
            family.name,
            family.write(graph, idea.region, technique),
            tuple(sorted(found, key=lambda f: f.us)),
        )


def some(found: Sequence[Timed], most: int) -> list[Timed]:
    """The best tile of each kind of crew and width."""
    best: dict[tuple[int, ...], Timed] = {}
    for timed in found:
        tile = timed.schedule
        best.setdefault((tile.mma_tiles_m, tile.groups, tile.consumer_groups, tile.width), timed)
    return list(best.values())[:most]


def values_of(timed: Timed) -> dict[str, int]:
    values = timed.schedule.values()
    return {name: values[name] for name in NAMES}


def look(given: argparse.Namespace) -> None:
    """Raises WarpsmithError."""
    target, gpu, end = CudaTarget(Path(mkdtemp(prefix="look-"))), Gpu(), time.monotonic() + given.seconds
    with given.out.open("a") as out, ThreadPoolExecutor(BUILDS) as builders:
        for task, file in zip(given.task, files(given.kernelbench, given.task), strict=True):
            with Scratch() as scratch:
                graph = load_task(str(file), scratch=scratch, timeout=120.0).graph
            for family, unit, found in convolutions(graph):
                tiles = [with_values(unit, values_of(tile)) for tile in some(found, given.tiles)]
                builds = builders.map(lambda u, graph=graph: target.build(u, graph, "main"), tiles)
                for made, build in zip(tiles, builds, strict=True):
                    if time.monotonic() > end:
                        return
                    if build.ok:
                        seen = gpu.ask(task, graph, [(made.region, build.library)])
                    else:
                        seen = {"failed": "; ".join(d.message for d in build.diagnostics)[:300]}
                    took = {name.split("(")[0].split()[-1]: us for name, us in seen.get("kernels", [])}
                    row = {"task": task, "family": family, "values": made.values, "error": seen.get("error")}
                    row |= {f"{kernel}_us": took.get(kernel) for kernel in ("convolve", "cast_to_fp16")}
                    out.write(json.dumps(row) + "\n")
                    out.flush()
                    print(task, family, made.values, row["convolve_us"], seen.get("failed", ""), flush=True)


def read(path: Path) -> list[Row]:
    """Raises UsageError."""
    try:
        rows: list[Row] = [json.loads(line) for line in path.read_text().splitlines()]
        known = all(
            {"task", "family", "convolve_us"} <= row.keys() and {*NAMES} <= row["values"].keys()
            for row in rows
        )
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise UsageError(f"{path} holds no rows of `look`: {type(error).__name__} {error}") from error
    if not known:
        raise UsageError(f"{path} holds no rows of `look`: a task, a family, values and convolve_us make one")
    return rows


def loads(rows: Sequence[Row], kernelbench: Path) -> dict[str, list[tuple[Load, float]]]:
    """Of each task and family what its tiles do and what they took."""
    by: dict[str, list[Row]] = {}
    for row in rows:
        if row["convolve_us"]:
            by.setdefault(row["task"], []).append(row)
    found: dict[str, list[tuple[Load, float]]] = {}
    for task, own in by.items():
        with Scratch() as scratch:
            graph = load_task(str(files(kernelbench, [task])[0]), scratch=scratch, timeout=120.0).graph
        for family, _, tiles in convolutions(graph):
            known: Mapping[tuple[int, ...], Load] = {tuple(values_of(t).values()): t.load for t in tiles}
            for row in own:
                values = tuple(row["values"][name] for name in NAMES)
                if row["family"] == family and values in known:
                    found.setdefault(f"{task} {family}", []).append((known[values], row["convolve_us"]))
    return found


def fit(found: Mapping[str, Sequence[tuple[Load, float]]], tries: int) -> Rates:
    """How far tiles of a convolution are off its common factor, fast ones most of all, and how much slower than the fastest what is chosen is."""
    import numpy as np
    from scipy.optimize import minimize

    def rates(x: Sequence[float]) -> Rates:
        return replace(RATES, **dict(zip(FITTED, map(exp, x), strict=True)))

    def loss(x: Sequence[float]) -> float:
        own, sum_of_all = rates(x), 0.0
        for tiles in found.values():
            fastest = min(us for _, us in tiles)
            off = [log(load.us(own) / us) for load, us in tiles]
            weights, middle = [(fastest / us) ** 2 for _, us in tiles], median(off)
            spread = sum(w * min(abs(o - middle), FAR) for w, o in zip(weights, off, strict=True)) / sum(
                weights
            )
            chosen = min(tiles, key=lambda pair: pair[0].us(own))[1]
            sum_of_all += spread + 0.15 * abs(middle) + 0.5 * log(chosen / fastest)
        return sum_of_all / len(found)

    random, x = np.random.default_rng(1), [log(getattr(RATES, name)) for name in FITTED]
    best = loss(x)
    for number in range(tries):
        start = np.array(x) + random.normal(0, 0.4, len(FITTED)) * (number > 0)
        made = minimize(
            loss, start, method="Nelder-Mead", options={"maxiter": 400, "xatol": 1e-2, "fatol": 1e-4}
        )
        if made.fun < best:
            best, x = float(made.fun), list(made.x)
    return rates(x)


def report(found: Mapping[str, Sequence[tuple[Load, float]]], rates: Rates) -> None:
    lost = []
    for name, tiles in sorted(found.items()):
        chosen, fastest = min(tiles, key=lambda pair: pair[0].us(rates)), min(us for _, us in tiles)
        lost.append(chosen[1] / fastest)
        print(
            f"{name:30s} {len(tiles):3d} tiles, chosen {chosen[1]:6.0f} us (said {chosen[0].us(rates):6.0f}), fastest {fastest:6.0f}: {lost[-1]:.2f}"
        )
    print(
        f"what is chosen takes {median(lost):.2f} times the fastest in the median, {max(lost):.2f} at the most"
    )
    print(json.dumps({name: round(value, 3) for name, value in asdict(rates).items()}))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    looking = commands.add_parser("look")
    looking.add_argument("kernelbench", type=Path)
    looking.add_argument("out", type=Path)
    looking.add_argument("--task", action="append", required=True, help="level1/55; repeatable")
    looking.add_argument("--tiles", type=int, default=8, help="of each convolution")
    looking.add_argument("--seconds", type=float, default=1e9)
    fitting = commands.add_parser("fit")
    fitting.add_argument("rows", type=Path)
    fitting.add_argument("--kernelbench", type=Path, required=True)
    fitting.add_argument("--tries", type=int, default=4, help="0: only say what the rates of now choose")
    given = parser.parse_args(arguments)
    if given.command == "look" and not torch.cuda.is_available():
        parser.error("there is no NVIDIA GPU that torch can use: run it on a machine with one")
    try:
        if given.command == "look":
            look(given)
        else:
            found = loads(read(given.rows), given.kernelbench)
            report(found, fit(found, given.tries))
    except (WarpsmithError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
