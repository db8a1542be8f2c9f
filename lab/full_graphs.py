"""What a CUDA graph of a whole model gives by itself, with no kernel of ours: beside eager mode, and `torch.compile` with and without its own graphs.

In: names of workloads (`benchmarks/models_workloads.py`); a GPU. Out: JSON, a row a model: medians of a run in ms, and speedups over eager mode with
95% intervals, all variants side by side in random order. `graph` is `runtime/full_graph.py` over the original's own operations. **No judge takes part**;
that replays answer as launches do, within the bounds of `composition/whole_call.py`, is checked first.

    python lab/full_graphs.py OUT.json [llama-static vit gpt2] [--size full] [--seconds 10] [--variants graph compile reduce-overhead]
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from models_measuring import find_failure, make_compiled
from models_workloads import Workload, workloads

from warpsmith.composition.compose import compose
from warpsmith.composition.side_by_side import measure_side_by_side
from warpsmith.config import Config
from warpsmith.whole_model.finishing import choose_whole_call
from warpsmith.workload.capturing import record_calls

MODES = {"compile": "default", "reduce-overhead": "reduce-overhead"}


def measure(workload: Workload, options: argparse.Namespace) -> dict[str, Any]:
    model = workload.make_model(options.size, options.device)
    run = workload.make_run(model, options.size, False)
    runs, row = {"eager": partial(run, model)}, {"model": workload.name, "size": options.size}
    if "graph" in options.variants:
        graph = make_graph(model, run)
        if isinstance(graph, str):
            row["no_graph_because"] = graph
        else:
            runs["graph"] = partial(run, graph)
    for name in options.variants:
        if name in MODES:
            compiled = make_compiled(model, MODES[name], workload.make_run(model, options.size, True))
            began_s = time.monotonic()
            if failure := find_failure(compiled):
                row[f"no_{name}_because"] = failure
            else:
                runs[name] = compiled
            row[f"{name}_ready_s"] = round(time.monotonic() - began_s, 1)
    blocks = measure_side_by_side({name: partial(give, r) for name, r in runs.items()}, options.seconds, 0)
    ratios = {name: blocks.compare("eager", name) for name in runs if name != "eager"}
    medians = {name: sorted(t for block in times for t in block) for name, times in blocks.times_ns.items()}
    return row | {
        "ms": {name: round(times[len(times) // 2] / 1e6, 3) for name, times in medians.items()},
        "over_eager": {name: [round(r.median, 3), round(r.low, 3), round(r.high, 3)] for name, r in ratios.items()},
    }  # fmt: skip


def make_graph(model: torch.nn.Module, run: Any) -> torch.nn.Module | str:
    """The model with its calls as one CUDA graph, or why not."""
    run(model)
    with record_calls(model, Config.load({})) as recording:
        run(model)
    whole_call = choose_whole_call(model, run, recording)
    if whole_call is None:
        return "its calls differ, need gradients, or return too much to copy"
    composition = compose(model, [], whole_call)
    composition.use([whole_call.name])
    return composition.find_wrong_replays() or composition.model


def give(run: Any) -> Any:
    return run


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [w.name for w in workloads()]
    parser.add_argument("out", type=Path)
    parser.add_argument("models", nargs="*", default=["llama-static", "vit", "gpt2"], help=", ".join(names))
    parser.add_argument("--size", default="full")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--variants", nargs="+", default=["graph", *MODES], choices=["graph", *MODES])
    options = parser.parse_args()
    rows = []
    for workload in workloads():
        if workload.name in options.models:
            rows.append(measure(workload, options))
            print(json.dumps(rows[-1]), flush=True)
            hardware = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
            options.out.write_text(
                json.dumps({"hardware": hardware, "torch": torch.__version__, "rows": rows}, indent=1)
            )
            gc.collect()
    return 0


if __name__ == "__main__":
    sys.exit(main())
