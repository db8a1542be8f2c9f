"""What a CUDA graph of a candidate gives a caller who calls it in a row, as a model at decode does: the host's time, which no judge sees.

In: a folder that `dependent_launch.py build` filled; a GPU. Out: JSON, a row a task: microseconds a call of the expert's first plan launched step by step,
of the same as replays (`runtime/graph_replays.py`), of the module itself and of `torch.compile` in two modes. Each is the median of loops in turn, the
device awaited at the end of each; small inputs come from two places in turn, so that replays copy them. **No judge takes part**; that launches
and replays give the same bits is checked on the way.

    python lab/dependent_launch.py build FOLDER decoder_decode_bf16 … [--arch sm_90a] [--device "NVIDIA H200"]
    python lab/graph_replays.py FOLDER OUT.json [--loops 15]
"""

from __future__ import annotations

import argparse
import json
import pickle
import runpy
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from cuda_look import draw
from dependent_launch import SERVING, is_equal, write_report, written

from warpsmith.records import Graph
from warpsmith.runtime.deployed import deploy
from warpsmith.runtime.graph_replays import GraphReplays, list_updated

IN_A_ROW = 50
SMALL_BYTES = 1 << 20
MODES = {"compile": None, "compile-reduce-overhead": "reduce-overhead"}
Call = Callable[[], Any]


def measure(file: Path, loops: int) -> dict[str, Any]:
    name, graph, regions, libraries, _ = pickle.loads(file.read_bytes())
    parts = list(zip(regions, written(file, "dependent", libraries), strict=True))
    launched = deploy(graph, parts, "cuda")
    replayed = GraphReplays(deploy(graph, parts, "cuda"), list_updated(graph))
    both = [alternate(graph, draw(graph)) for _ in range(2)]
    same = all(
        is_equal(a, b)
        for _ in range(8)
        for a, b in zip(launched(both[0]()), replayed(both[1]()), strict=True)
    )
    calls: dict[str, Call] = {
        "launched": lambda: launched(both[0]()),
        "replayed": lambda: replayed(both[1]()),
        **modules(SERVING / f"{name}.py"),
    }
    times = in_turn(calls, loops)
    return {
        "task": name, "units": len(regions), "us": {k: round(statistics.median(v), 1) for k, v in times.items()},
        "quartiles_us": {k: [round(q, 1) for q in statistics.quantiles(v)] for k, v in times.items()},
        "host_us": round(replayed.host_us, 1), "replays": replayed.replays,
        "no_replay_because": replayed.reason, "same_bits": same,
    }  # fmt: skip


def alternate(graph: Graph, inputs: Sequence[torch.Tensor]) -> Callable[[], list[torch.Tensor]]:
    """The inputs of a call, the small arguments from one of two places in turn."""
    updated = list_updated(graph)
    moving = [
        i for i, item in enumerate(graph.inputs)
        if item.role == "input" and i not in updated and inputs[i].nbytes <= SMALL_BYTES
    ]  # fmt: skip
    second = list(inputs)
    for i in moving:
        second[i] = inputs[i].clone()
    both = [list(inputs), second]

    def take() -> list[torch.Tensor]:
        both.reverse()
        return both[0]

    return take


def modules(file: Path) -> dict[str, Call]:
    """The module itself, and compiled."""
    torch.manual_seed(0)
    task = runpy.run_path(str(file))
    model = task["Model"](*task["get_init_inputs"]()).cuda().eval()
    inputs = [x.cuda() if isinstance(x, torch.Tensor) else x for x in task["get_inputs"]()]
    calls: dict[str, Call] = {"eager": lambda: model(*inputs)}
    for label, mode in MODES.items():
        compiled = torch.compile(model, mode=mode)
        calls[label] = lambda compiled=compiled: compiled(*inputs)
    return calls


@torch.no_grad()
def in_turn(calls: dict[str, Call], loops: int) -> dict[str, list[float]]:
    """Microseconds a call, by loops of calls in turn."""
    times: dict[str, list[float]] = {label: [] for label in calls}
    for call in calls.values():
        for _ in range(10):
            call()
    for _ in range(loops):
        for label, call in calls.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(IN_A_ROW):
                call()
            torch.cuda.synchronize()
            times[label].append((time.perf_counter() - start) / IN_A_ROW * 1e6)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--loops", type=int, default=15)
    options = parser.parse_args()
    rows = []
    for file in sorted(options.folder.glob("*.pickle")):
        rows.append(measure(file, options.loops))
        print(json.dumps(rows[-1]), flush=True)
        write_report(options.out, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
