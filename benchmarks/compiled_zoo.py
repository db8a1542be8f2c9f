"""Model classes that people have through the backend of `torch.compile`, with the expert's kernels put into an archive for each.

    python benchmarks/compiled_zoo.py --library transformers --out results/cpu/compiled_zoo.jsonl --page results/cpu/compiled_zoo.md

Nothing is searched or measured: the question is whether a graph with kernels in it answers like the model. The graphs that dynamo
hands over are recorded; for each, up to `--kernels` regions of the expert's first plan are written with their first technique, built,
compared with ATen on random inputs, and kept as winners of this machine. Then the model is compiled anew with the backend, called on
the example inputs and on fresh ones, and compared with the original: classes all the way down, and values. A kernel that its own
comparison refuses is left out and counted. Models are those of `model_zoo.py`, built from configurations with random weights.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from model_zoo_models import Entry, entries
from pages import describe_machine, list_table, write_page
from same_outputs import difference

from warpsmith.agents.expert.planner import plans
from warpsmith.archive.store import Archive
from warpsmith.codegen.program import Unsupported
from warpsmith.compiling.backend import Backend
from warpsmith.compiling.conversion import to_graph
from warpsmith.errors import WarpsmithError
from warpsmith.facts import Facts
from warpsmith.kernels.registry import families_of
from warpsmith.machine import describe, threads
from warpsmith.records import (
    Candidate,
    Check,
    Graph,
    Ratio,
    Result,
    Task,
    TaskSource,
    Timing,
    Unit,
    Variant,
    Verdict,
)
from warpsmith.runtime.fx_graphs import extract_region, to_fx
from warpsmith.runtime.unit_operators import define_unit_operator
from warpsmith.targets.cpu import CpuTarget

Row = dict[str, Any]
CheckModel = Callable[[Entry, Path, argparse.Namespace], Row]


def main() -> int:
    options = parse_arguments()
    rows = check_entries(entries(), compile_model, options)
    if options.page:
        write_page(options.page, render_page(rows, options))
    return int(has_faults(rows))


def check_entries(listed: Sequence[Entry], check: CheckModel, options: argparse.Namespace) -> list[Row]:
    """Check the entries of this part that have no row yet, and keep each row at once; return all rows."""
    rows = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    done, started_s = {row["name"] for row in rows}, time.monotonic()
    for entry in listed[options.part[0] :: options.part[1]]:
        if entry.library not in options.library or entry.name in done:
            continue
        if options.only and entry.name not in options.only:
            continue
        if time.monotonic() - started_s > options.seconds:
            break
        row = check_entry(entry, check, options)
        rows.append(row)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        with options.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{row['name']}: {row['status']} {row['detail']} ({row['seconds']:.0f} s)", flush=True)
    return rows


def check_entry(entry: Entry, check: CheckModel, options: argparse.Namespace) -> Row:
    """Return the row of an entry: what `check` finds in a folder of its own."""
    started_s = time.monotonic()
    torch._dynamo.reset()
    row: Row = {"name": entry.name, "family": entry.family, "status": "right", "detail": "", "refused": 0}
    try:
        with tempfile.TemporaryDirectory() as folder:
            row |= check(entry, Path(folder), options)
    except Exception as error:  # noqa: BLE001 - every outcome is a row
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        row |= {"status": "error", "detail": f"{type(error).__name__}: {said[:160]}"}
    return row | {"seconds": time.monotonic() - started_s}


def has_faults(rows: Sequence[Row]) -> bool:
    return any(row["status"] in ("wrong", "error") for row in rows)


@torch.no_grad()
def compile_model(entry: Entry, folder: Path, options: argparse.Namespace) -> Row:
    model = entry.make_module()
    graphs = record_graphs(model, entry)
    target, archive = CpuTarget(options.cache), Archive(folder / "archive.db")
    refused = sum(
        add_winners(archive, graph, f"{entry.name}-{n}", target, options.kernels)
        for n, graph in enumerate(graphs)
    )
    archive.close()
    backend = Backend({"archive": str(folder / "archive.db"), "next": options.next})
    compiled, original = torch.compile(model, backend=backend, dynamic=False), copy.deepcopy(model)
    details = []
    for seed in (0, 1):
        arguments, keywords = entry.inputs(model, seed)
        again, keywords_again = copy.deepcopy((arguments, keywords))
        details.append(difference(original(*again, **keywords_again), compiled(*arguments, **keywords)))
    reports = backend.explain().graphs
    return {
        "status": "wrong" if any(details) else "right", "detail": next(filter(None, details), ""), "refused": refused,
        "graphs": len(reports), "operations": sum(r.operations for r in reports), "covered": sum(r.covered for r in reports),
        "operators": sum(len(r.kernels) for r in reports),
        "reasons": sorted({r.reason for r in reports if r.reason}),
    }  # fmt: skip


def record_graphs(model: torch.nn.Module, entry: Entry) -> list[Graph]:
    """The graphs of one call, those that can be converted."""
    graphs: list[Graph] = []

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        with contextlib.suppress(WarpsmithError):
            graphs.append(to_graph(module, inputs))
        return module.forward

    arguments, keywords = entry.inputs(model, 0)
    torch.compile(model, backend=backend, dynamic=False)(*arguments, **keywords)
    torch._dynamo.reset()
    return graphs


def add_winners(archive: Archive, graph: Graph, name: str, target: CpuTarget, most: int) -> int:
    """Keep kernels for a graph; return how many were refused."""
    source = TaskSource(kind="kernelbench", path=f"{name}.py", text=name)
    task = Task(name=name, source=source, variants=(Variant(name="main", overrides={}, graph=graph),))
    environment, refused, signatures = describe(), 0, set[str]()
    archive.begin_run(name, task, "cpu", 0, {}, environment)
    facts = Facts(threads=threads())
    regions = next(iter(plans(graph, facts)), ())
    for region in sorted(regions, key=lambda r: -len(r.nodes)):
        if region.signature in signatures or len(signatures) >= most:
            continue
        signatures.add(region.signature)
        unit = write_unit(graph, region, facts)
        if unit is None or not is_right(graph, unit, target):
            refused += 1
            continue
        candidate = Candidate(task_id=task.id, target="cpu", units=(unit,))
        archive.add_confirmation(name, candidate, pretend_win(candidate, environment.id))
    return refused


def write_unit(graph: Graph, region: Any, facts: Facts) -> Unit | None:
    for family in families_of("cpu").values():
        try:
            for technique in family.techniques(graph, region, facts)[:1]:
                unit = family.write(graph, region, technique)
                if unit.compiled:
                    return unit
        except (Unsupported, WarpsmithError):
            continue
    return None


def is_right(graph: Graph, unit: Unit, target: CpuTarget) -> bool:
    """Build a unit and compare it with ATen on random inputs; integers are small, so that they may be indices."""
    build = target.build(unit, graph, "main")
    if not build.ok:
        return False
    region = extract_region(graph, unit.region)
    operator = define_unit_operator(graph, unit.region, Path(build.library), "cpu", unit.technique)
    generator = torch.Generator().manual_seed(0)
    inputs = []
    for item in (i for i in region.inputs if not i.data):
        dtype = getattr(torch, item.spec.dtype)
        axes = zip(item.spec.shape, item.spec.stride, strict=True)
        drawn = torch.randn([1 if stride == 0 else size for size, stride in axes], generator=generator)
        inputs.append((drawn if dtype.is_floating_point else drawn > 0).to(dtype).expand(item.spec.shape))
    expected, answer = to_fx(region)(*inputs), operator(*inputs)
    answers = answer if isinstance(answer, tuple) else (answer,)
    return all(
        torch.allclose(a, e, rtol=1e-4, atol=1e-4, equal_nan=True)
        for a, e in zip(answers, expected, strict=True)
    )


def pretend_win(candidate: Candidate, environment: str) -> Result:
    """A result as the judge would write it: the archive holds these for the length of one check."""
    ratio = Ratio(baseline="eager", median=1.5, low=1.4, high=1.6)
    timing = Timing(
        median_us=10, low_us=9, high_us=11, cache="cold", samples=9, ratios=(ratio,), confirmed=True
    )
    check = Check(variant="main", family="task", where="whole", ok=True)
    return Result(
        candidate_id=candidate.id, content_key=candidate.content_key, task_id=candidate.task_id, target="cpu", status="ok",
        verdict=Verdict(correct=True, checks=(check,), labels=("kernel",)), timing=timing, environment=environment,
    )  # fmt: skip


def render_page(rows: list[Row], options: argparse.Namespace) -> str:
    wrong = sum(row["status"] == "wrong" for row in rows)
    errors = sum(row["status"] == "error" for row in rows)
    used = sum(row.get("operators", 0) > 0 for row in rows)
    command = f"python benchmarks/compiled_zoo.py --library {' '.join(options.library)} --next {options.next} --kernels {options.kernels} --out {options.out} --page {options.page}"
    table = list_table(
        ["model", "family", "answer", "graphs", "operations", "by kernels", "kernels", "left out", "why not"],
        [
            [
                row["name"], row["family"], row["detail"] or row["status"], str(row.get("graphs", "")), str(row.get("operations", "")),
                str(row.get("covered", "")), str(row.get("operators", "")), str(row["refused"]), "; ".join(row.get("reasons", [])),
            ]
            for row in rows
        ],
    )  # fmt: skip
    return "\n".join([
        "# Model classes through the backend of torch.compile", "", f"Command: `{command}`", "", describe_machine(), "",
        f"**{len(rows)} classes: {len(rows) - wrong - errors} answer like the original, {wrong} wrongly, {errors} ended otherwise; "
        f"kernels ran in {used}.** Kernels are the expert's first technique for up to {options.kernels} kinds of region a graph, "
        "neither judged nor measured; *left out* were those that do not build or miss ATen's answer on random inputs. "
        f"The rest of each graph is by `{options.next}`.", "", *table, "",
    ])  # fmt: skip


def parse_arguments() -> argparse.Namespace:
    return make_parser(__doc__, "aot_eager", Path("results/cpu/compiled_zoo.jsonl")).parse_args()


def make_parser(description: str | None, next_backend: str, out: Path) -> argparse.ArgumentParser:
    """Make the parser of a command that checks entries. `next_backend` and `out` are defaults."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--library", nargs="+", default=["transformers"])
    parser.add_argument("--only", nargs="+")
    parser.add_argument(
        "--part",
        type=int,
        nargs=2,
        default=(0, 1),
        metavar=("K", "OF"),
        help="every OF-th model, from the K-th",
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no model after so long")
    parser.add_argument("--next", default=next_backend)
    parser.add_argument("--kernels", type=int, default=3)
    parser.add_argument("--out", type=Path, default=out)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "compiled-zoo")
    return parser


if __name__ == "__main__":
    sys.exit(main())
