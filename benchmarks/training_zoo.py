"""Training steps of model classes that people have, with the expert's kernels put into forward and backward.

    python benchmarks/training_zoo.py --out results/cpu/training_zoo.jsonl --page results/cpu/training_zoo.md

Nothing is searched or measured: the question is whether a step with kernels in it gives the same gradients. As in `compiled_zoo.py`, the
graphs are recorded, here both halves of each; up to `--kernels` regions of the expert's first plan for each are built, compared with ATen, and kept as winners
of this machine. Then the model is compiled anew with `options={"training": True}`. Outputs, gradients of all parameters and buffers are
compared with a float64 run, by the judge's budget for what rounding alone does. Dropout is off, since the models are in evaluation mode.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import Any

import torch
from compiled_zoo import Row, add_winners, check_entries, has_faults, make_parser
from model_zoo_models import Entry, entries
from pages import describe_machine, list_table, write_page

from warpsmith.archive.store import Archive
from warpsmith.compiling.backend import Backend
from warpsmith.compiling.conversion import to_graph
from warpsmith.compiling.steps import DIRECTIONS, need_gradients
from warpsmith.composition.outputs import collect_outputs
from warpsmith.composition.parity import find_truth
from warpsmith.errors import WarpsmithError
from warpsmith.records import Graph
from warpsmith.targets.cpu import CpuTarget
from warpsmith.training.searching import drop_passed_on
from warpsmith.training.step import HalfStep, TrainingStep, record_step

SEED = 0


def main() -> int:
    options = make_parser(__doc__, "eager", Path("results/cpu/training_zoo.jsonl")).parse_args()
    trained = [e for e in entries() if "cache given" not in e.family]  # a step of decoding is no training
    rows = check_entries(trained, train_model, options)
    if options.page:
        write_page(options.page, render_page(rows, options))
    return int(has_faults(rows))


def train_model(entry: Entry, folder: Path, options: argparse.Namespace) -> Row:
    model = entry.make_module()
    step = TrainingStep(*entry.inputs(model, SEED), SEED)
    truth = find_truth(step.collect, model, SEED)
    chaos = len(truth.list_chaos())
    graphs = record_halves(model, step)
    target, archive = CpuTarget(options.cache), Archive(folder / "archive.db")
    with torch.no_grad():
        refused = sum(
            add_winners(archive, graph, f"{entry.name}-{n}", target, options.kernels)
            for n, graph in enumerate(graphs)
        )
    archive.close()
    backend = Backend({"archive": str(folder / "archive.db"), "next": options.next, "training": True})
    compiled: Any = torch.compile(model, backend=backend, dynamic=False)
    parity = truth.compare(collect_outputs(step.collect, compiled, SEED))
    reports = [r for r in backend.explain().graphs if r.direction]
    kernels = {d: sum(len(r.kernels) for r in reports if r.direction == d) for d in DIRECTIONS}
    return {
        "status": "right" if parity.ok else "wrong", "detail": parity.detail, "share_of_budget": parity.error, "float64": parity.oracle,
        "compared": len(truth.native), "says_nothing": chaos, "refused": refused, "graphs": len(reports),
        "operations": sum(r.operations for r in reports), "covered": sum(r.covered for r in reports), "kernels": kernels,
        "reasons": sorted({r.reason for r in reports if r.reason}),
    }  # fmt: skip


def record_halves(model: torch.nn.Module, step: TrainingStep) -> list[Graph]:
    """Return the halves of all graphs of one step, those that can be converted."""
    halves: list[HalfStep] = []

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        if not need_gradients(inputs):
            return module.forward
        return record_step(module, inputs, lambda _, half: halves.append(half))

    step.collect(torch.compile(model, backend=backend, dynamic=False))
    torch._dynamo.reset()
    graphs = []
    for half in halves:
        with contextlib.suppress(WarpsmithError), torch.no_grad():
            graphs.append(to_graph(drop_passed_on(half).module, half.inputs))
    return graphs


def render_page(rows: list[Row], options: argparse.Namespace) -> str:
    wrong = sum(row["status"] == "wrong" for row in rows)
    errors = sum(row["status"] == "error" for row in rows)
    both = sum(all(row.get("kernels", {}).get(d) for d in DIRECTIONS) for row in rows)
    command = f"python benchmarks/training_zoo.py --library {' '.join(options.library)} --next {options.next} --kernels {options.kernels} --out {options.out} --page {options.page}"
    table = list_table(
        ["model", "family", "gradients", "share of the budget", "results compared", "of these noise", "operations", "by kernels", "kernels forward", "backward", "left out", "why not"],
        [
            [
                row["name"], row["family"], row["detail"] or row["status"], f"{row['share_of_budget']:.2f}" if "share_of_budget" in row else "",
                str(row.get("compared", "")), str(row.get("says_nothing", "")), str(row.get("operations", "")), str(row.get("covered", "")),
                *(str(row.get("kernels", {}).get(d, "")) for d in DIRECTIONS), str(row["refused"]), "; ".join(row.get("reasons", [])),
            ]
            for row in rows
        ],
    )  # fmt: skip
    return "\n".join([
        "# Training steps of model classes, with kernels in both halves", "", f"Command: `{command}`", "", describe_machine(), "",
        f"**{len(rows)} classes: {len(rows) - wrong - errors} give the gradients of the original, {wrong} others, {errors} ended otherwise; "
        f"kernels ran in both halves of {both}.** Outputs, gradients of all parameters and buffers are compared with a float64 run under the judge's "
        "budget; *noise* are results that rounding alone changes by a tenth of their values, of which a comparison says nothing. "
        f"Kernels are the expert's first technique for up to {options.kernels} kinds of region a half, "
        "neither judged nor measured; *left out* were those that do not build or miss ATen's answer on random inputs. "
        f"The rest of each graph is by `{options.next}`.", "", *table, "",
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
