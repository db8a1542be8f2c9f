"""Which of the expert's CUDA kernels build for which GPU architecture, without a GPU.

    python benchmarks/emitted_units.py record rows.jsonl --cache /tmp/graphs --texts /tmp/texts
    python benchmarks/architectures.py build rows.jsonl --texts /tmp/texts --out results/code/architectures.json
    python benchmarks/architectures.py page results/code/architectures.json

One unit of each family and technique, and of products and attention in half precision, which the suites have at large shapes only: each is built by nvcc for
each architecture: `ptxas` makes machine code of it, and its kernels must say that they are of that architecture. `offered` tells whether
the expert would propose the technique there. A technique that is offered must build; one that is not may refuse, in one line. Shared memory
that a launch asks for is not seen by a build: a kernel that builds may still not fit an older GPU's block.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from emitted_units import MACHINES, hash_text, load_graph, write_units

from warpsmith.agents.expert.planner import plans
from warpsmith.codegen.program import Unsupported
from warpsmith.kernels.registry import families_of
from warpsmith.records import Build, Graph, Unit
from warpsmith.targets.cuda import CudaTarget

ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")
CALLS = {
    "half-precision product": ("F.gelu(a @ b)", "(torch.randn(512, 256).half(), torch.randn(256, 512).half())"),
    "half-precision product of few rows": ("F.linear(a, b)", "(torch.randn(8, 512).half(), torch.randn(512, 512).half())"),
    "half-precision attention": (
        "F.scaled_dot_product_attention(a, b, b)",
        "(torch.randn(1, 4, 256, 64).half(), torch.randn(1, 4, 256, 64).half())",
    ),
    "half-precision attention of one query": (
        "F.scaled_dot_product_attention(a, b, b)",
        "(torch.randn(4, 8, 1, 64).half(), torch.randn(4, 8, 1024, 64).half())",
    ),
}  # fmt: skip
TASK = """import torch
from torch.nn import functional as F
class Model(torch.nn.Module):
    def forward(self, a, b):
        return {call}
def get_inputs():
    return list({inputs})
def get_init_inputs():
    return []
"""
Case = tuple[str, Unit, Graph]  # name of the task, and what is built
Row = dict[str, Any]


def choose_units(rows: Path, texts: Path, target: str) -> list[Case]:
    """One of each family and technique for a target, the one whose row has the smallest hash."""
    read = [json.loads(line) for line in rows.read_text().splitlines()]
    offered = [r for r in read if "refused" not in r and MACHINES[r["machine"]].target == target]
    offered.sort(key=lambda r: hash_text(f"{r['task']} {r['region']} {r['values']}"))
    first: dict[tuple[str, str], Row] = {}
    for row in offered:
        first.setdefault((row["family"], row["technique"]), row)
    cases = [read_case(row["task"], texts / f"{row['text']}.json") for row in first.values()]
    return [case for case in cases if case[1].language != "aten"]  # other calls of the library have no source


def read_case(task: str, file: Path) -> Case:
    held = json.loads(file.read_text())
    return task, Unit.model_validate(held["unit"]), Graph.model_validate(held["graph"])


def write_half_precision_units() -> Iterator[Case]:
    """The first unit of each technique that half-precision products and attention are offered on an H200."""
    with tempfile.TemporaryDirectory() as name:
        for title, (call, inputs) in CALLS.items():
            path = Path(name) / f"{title.replace(' ', '_').replace('-', '_')}.py"
            path.write_text(TASK.format(call=call, inputs=inputs))
            graph = load_graph(path, path.with_suffix(".json"))
            if graph is None:
                raise SystemExit(f"{title} does not load: {path.with_suffix('.json').read_text()}")
            facts, seen = MACHINES["h200"], set[tuple[str, str]]()
            for region in {r.id: r for plan in plans(graph, facts) for r in plan}.values():
                for unit in write_units(graph, region, facts):
                    if (key := (unit.family, unit.technique)) not in seen:
                        seen.add(key)
                        yield title, unit, graph


def is_offered(unit: Unit, graph: Graph, arch: str) -> bool:
    """Whether the expert would propose the unit's technique for its region on a GPU of `arch`."""
    machine = MACHINES["h200" if arch == "sm_90a" else "a100"]
    family = families_of("cuda")[unit.family]
    try:
        techniques = family.techniques(graph, unit.region, replace(machine, arch=arch))
    except Unsupported:
        return False
    return unit.technique in {t.name for t in techniques}


def build_everywhere(case: Case, folder: Path, archs: Iterable[str]) -> list[Row]:
    task, unit, graph = case
    rows = []
    for arch in archs:
        row = {"task": task, "family": unit.family, "technique": unit.technique, "arch": arch}
        row |= {"offered": is_offered(unit, graph, arch)}
        row |= describe_build(CudaTarget(folder, arch=arch).build(unit, graph, "main"), arch)
        rows.append(row)
    print(f"{unit.family} {unit.technique}: {' '.join(r['outcome'] for r in rows)}", flush=True)
    return rows


def describe_build(build: Build, arch: str) -> Row:
    if not build.ok:
        errors = [f"{d.kind}: {d.message}" for d in build.diagnostics if d.kind != "warning"]
        return {"outcome": "refused", "says": errors[:1], "lines": len(errors)}
    if {k.arch for k in build.kernels} != {arch}:
        return {"outcome": "wrong architecture"}
    spilled = sum(k.spill_store_bytes for k in build.kernels)
    return {"outcome": "built", "kernels": len(build.kernels), "spilled_bytes": spilled, "seconds": round(build.seconds, 1)}  # fmt: skip


def run_build(options: argparse.Namespace) -> int:
    cases = [*choose_units(options.rows, options.texts, "cuda"), *write_half_precision_units()]
    work = partial(build_everywhere, folder=options.builds, archs=ARCHS)
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = [row for done in pool.map(work, cases) for row in done]
    toolkit = CudaTarget(options.builds, arch=ARCHS[0])
    about = {
        "nvcc": toolkit.toolkit.signature, "host_compiler": toolkit.signature, "torch": torch.__version__,
        "command": "python benchmarks/architectures.py build rows.jsonl --texts /tmp/texts --out results/code/architectures.json",
    }  # fmt: skip
    options.out.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
    faults = list_faults(rows)
    print("\n".join(faults) or "every technique builds wherever it is offered")
    return int(bool(faults))


def list_faults(rows: Iterable[Row]) -> list[str]:
    """A line for each build that contradicts what the expert offers, or refuses in more than a line."""
    faults = []
    for row in rows:
        name = f"{row['family']} {row['technique']} for {row['arch']}"
        if row["outcome"] == "wrong architecture" or (row["offered"] and row["outcome"] == "refused"):
            faults.append(f"{name}: {row['outcome']} though {'' if row['offered'] else 'not '}offered")
        elif row["outcome"] == "refused" and (row["lines"] != 1 or row["says"] != ["requires: sm_90a"]):
            faults.append(
                f"{name}: is not offered there, but refuses in {row['lines']} lines instead of one: `{row['says'][0]}`"
            )
    return faults


def write_page(options: argparse.Namespace) -> int:
    held = json.loads(options.file.read_text())
    about, rows = held["about"], held["rows"]
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        cells.setdefault((row["family"], row["technique"]), {})[row["arch"]] = describe_cell(row)
    built = sum(r["outcome"] == "built" for r in rows)
    offered = sum(r["offered"] and r["outcome"] == "built" for r in rows)
    faults = list_faults(rows)
    lines = [
        "# CUDA kernels by GPU architecture", "",
        f"{about['nvcc']}, torch {about['torch']}. {built} of {len(rows)} builds succeed, {offered} of them where the expert offers the technique; "
        f"{sum(r['offered'] and r['outcome'] != 'built' for r in rows)} that it offers fail. "
        "Nothing has run on these architectures here: this says that they build. Shared memory that a launch asks for is not checked.", "",
        "    python benchmarks/emitted_units.py record rows.jsonl --cache /tmp/graphs --texts /tmp/texts", f"    {about['command']}", "",
        "*yes*: it builds and is offered. *builds*: it builds and is not offered. *no*: it does not build, and is not offered. "
        "A number is what `ptxas` spills, in bytes.", "",
        f"| family | technique | {' | '.join(ARCHS)} |", f"|---|---|{'---|' * len(ARCHS)}",
        *(f"| {f} | {t} | {' | '.join(by.get(a, '') for a in ARCHS)} |" for (f, t), by in sorted(cells.items())),
        *(["", "Refusals that are not one clear line (`requires: sm_90a`):", "", *(f"- {fault}" for fault in faults)] if faults else []),
    ]  # fmt: skip
    options.file.with_suffix(".md").write_text("\n".join(lines) + "\n")
    return 0


def describe_cell(row: Row) -> str:
    if row["outcome"] != "built":
        return "no" if row["outcome"] == "refused" else row["outcome"]
    spilled = f" ({row['spilled_bytes']})" if row["spilled_bytes"] else ""
    return ("yes" if row["offered"] else "builds") + spilled


def make_parser(
    about: str | None, folder: str, build: Callable[[argparse.Namespace], int], page: Callable[[argparse.Namespace], int]
) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:  # fmt: skip
    """The parser of a script that builds recorded units and writes a page of it, and that of its verb `build`."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    one = verbs.add_parser("build")
    one.add_argument("rows", type=Path)
    one.add_argument("--texts", type=Path, required=True, help="the folder that emitted_units.py filled")
    one.add_argument("--out", type=Path, required=True)
    one.add_argument("--builds", type=Path, default=Path(tempfile.gettempdir()) / folder)
    one.add_argument("--jobs", type=int, default=2)
    one.set_defaults(run=build)
    two = verbs.add_parser("page")
    two.add_argument("file", type=Path)
    two.set_defaults(run=page)
    return parser, one


if __name__ == "__main__":
    options = make_parser(__doc__, "warpsmith-architectures", run_build, write_page)[0].parse_args()
    sys.exit(options.run(options))
