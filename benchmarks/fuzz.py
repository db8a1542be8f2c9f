"""The expert against random modules: each of ten operations is exported, cut into regions, and every region's first
technique is built and compared with the float64 interpreter on the region's own inputs. Then each plan is deployed as a
candidate is, all its units in the module's graph, and the module's outputs are compared.

A finding is a unit that does not build, crashes, or is off by more than rounding can be. Modules run in batches,
each in a process of its own, so that a crash costs its batch's rest only and is named by its seed.

    python benchmarks/fuzz.py --count 500 --seed 0
    python benchmarks/fuzz.py --count 1 --seed 37 --verbose
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from fuzz_modules import make

from warpsmith.agents.expert.planner import plans
from warpsmith.facts import Facts
from warpsmith.kernels.registry import family_of
from warpsmith.records import Graph, GraphInput, GraphOutput, Region, Unit
from warpsmith.runtime.deployed import deploy
from warpsmith.runtime.interpreter import run_graph
from warpsmith.runtime.rewrites import deployed_graph
from warpsmith.targets.cpu import CpuTarget
from warpsmith.tasks.export import export_program, program_graph

ULP = 64.0  # of the largest element: what is wrong is off by far more
NATIVE = 8.0  # times the error of torch's own float32
BATCH = 25
THREADS = 2

Values = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Finding:
    seed: int
    what: str  # the family, technique and operations of the region
    evidence: str


def try_seed(seed: int, target: CpuTarget, seen: Counter[str]) -> list[Finding]:
    """What is wrong with the units of one module; `seen` counts the units by family."""
    module, inputs = make(seed)
    graph = program_graph(export_program(module, inputs, {}, "fuzz.py"), "fuzz.py")
    weights = dict(module.named_parameters())
    given = iter(inputs)
    values = {}
    for entry in graph.inputs:
        values[entry.name] = weights[entry.target].detach() if entry.role == "param" else next(given)
    facts = Facts(threads=THREADS)
    offered = plans(graph, facts)
    regions = {r.id: r for plan in offered for r in plan}
    returned = [str(o.value) for o in graph.outputs]
    wanted = {v for r in regions.values() for v in (*r.inputs, *r.outputs)} | set(returned)
    natively = run_graph(graph, values, wanted=wanted)
    found, units = [], {}
    for region in regions.values():
        unit = _unit(graph, region, facts)
        if unit is not None:
            seen[unit.family] += 1
            evidence = compare(unit, graph, natively, target)
            if evidence:
                operations = ", ".join(graph.by_name[n].op.removeprefix("aten.") for n in region.nodes)
                found.append(Finding(seed, f"{unit.family}/{unit.technique}: {operations}", evidence))
            units[region.id] = unit
    if not found:
        exact = run_graph(graph, values, wanted=with_operands(graph, returned), float64=True)
        given = [values[i.name] for i in graph.inputs]
        for number, plan in enumerate(offered):
            seen["whole modules"] += 1
            placed = [units[r.id] for r in plan if r.id in units]
            parts = [(u.region, Path(target.build(u, graph, "main").library)) for u in placed if u.compiled]
            made = dict(zip(returned, deploy(deployed_graph(graph, placed), parts)(given), strict=True))
            if evidence := differs(graph, made, natively, exact):
                found.append(Finding(seed, f"plan {number} of {len(offered)}, as deployed", evidence))
    return found


def _unit(graph: Graph, region: Region, facts: Facts) -> Unit | None:
    family = family_of(graph, region)
    offered = family.techniques(graph, region, facts) if family is not None else []
    return family.write(graph, region, offered[0]) if family is not None and offered else None


def compare(unit: Unit, graph: Graph, natively: Values, target: CpuTarget) -> str:
    """What is wrong with a unit, in a line; "" when nothing is."""
    inside = _alone(graph, unit.region)
    given = {v: natively[v] for v in unit.region.inputs}
    wanted = with_operands(inside, unit.region.outputs)
    exact = run_graph(inside, given, float64=True, wanted=wanted)
    if not unit.compiled:
        return differs(inside, run_graph(unit.rewrite or inside, given), natively, exact)
    build = target.build(unit, graph, "main")
    if not build.ok:
        return "; ".join(f"line {d.line}: {d.message}" for d in build.diagnostics)[:400] or "does not build"
    return differs(inside, _run(Path(build.library), unit, graph, natively), natively, exact)


def with_operands(graph: Graph, names: Sequence[str]) -> set[str]:
    return set(names).union(*(graph.producer[n].uses for n in names if n in graph.producer))


def differs(graph: Graph, made: Values, natively: Values, exact: Values) -> str:
    """Which of the values that were made is wrong, and by how much; "" when none is. An operation that cancels is
    allowed the rounding of what it is given.
    """
    for name, got in made.items():
        if not got.is_floating_point():
            if not torch.equal(got, natively[name]):
                return f"{name}: {int((got != natively[name]).sum())} of {got.numel()} elements differ"
            continue
        error = _worst(got.double(), exact[name])
        scale = max(
            float(exact[n].double().abs().max()) for n in with_operands(graph, [name]) if exact[n].numel()
        )
        allowed = ULP * torch.finfo(got.dtype).eps * scale + NATIVE * _worst(
            natively[name].double(), exact[name]
        )
        if not error <= allowed:
            return f"{name}: off by {error:.3g}, allowed {allowed:.3g}, largest element {scale:.3g}"
    return ""


def _worst(got: torch.Tensor, exact: torch.Tensor) -> float:
    return float((got - exact).abs().max())


def _alone(graph: Graph, region: Region) -> Graph:
    """The region as a graph of its own."""
    inputs = tuple(GraphInput(name=v, spec=graph.specs[v], role="input", target=v) for v in region.inputs)
    nodes = tuple(graph.by_name[n] for n in region.nodes)
    outputs = tuple(GraphOutput(value=v) for v in region.outputs)
    return Graph(inputs=inputs, nodes=nodes, outputs=outputs, tree=json.dumps([*range(len(outputs))]))


def _run(library: Path, unit: Unit, graph: Graph, natively: Values) -> Values:
    """Outputs by name. Inputs are laid out as the graph has them, whatever the interpreter made."""
    loaded = ctypes.CDLL(str(library))
    loaded.warpsmith_workspace_bytes.restype = ctypes.c_uint64
    inputs = [_laid_out(natively[v], graph.specs[v].stride) for v in unit.region.inputs]
    made = {}
    for name in unit.region.outputs:
        spec = graph.specs[name]
        empty = torch.empty_strided(spec.shape, spec.stride, dtype=getattr(torch, spec.dtype))
        made[name] = empty.fill_(float("nan") if empty.is_floating_point() else 1)
    workspace = torch.full((loaded.warpsmith_workspace_bytes() + 64,), 0xAB, dtype=torch.uint8)
    start = (workspace.data_ptr() + 63) // 64 * 64
    ins = (ctypes.c_void_p * len(inputs))(*[t.data_ptr() for t in inputs])
    outs = (ctypes.c_void_p * len(made))(*[t.data_ptr() for t in made.values()])
    loaded.warpsmith_run(ins, outs, ctypes.c_void_p(start), None)
    return made


def _laid_out(tensor: torch.Tensor, stride: tuple[int, ...]) -> torch.Tensor:
    if tensor.stride() == stride:
        return tensor
    fresh = torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype)
    if 0 not in stride:
        return fresh.copy_(tensor)
    return tensor  # expanded: the interpreter's own view is the only one with that layout


def _batch(first: int, count: int, cache: Path, verbose: bool) -> int:
    """Run some seeds here; one line of JSON for each, on stdout."""
    target, seen = CpuTarget(cache, threads=THREADS), Counter[str]()
    for seed in range(first, first + count):
        print(json.dumps({"begin": seed}), flush=True)
        if verbose:
            print(make(seed)[0].describe(), file=sys.stderr)
        try:
            found = try_seed(seed, target, seen)
        except Exception as error:  # noqa: BLE001 - whatever stops a module is a finding
            found = [Finding(seed, "stopped", f"{type(error).__name__}: {error}")]
        print(json.dumps({"findings": [f.__dict__ for f in found]}), flush=True)
    print(json.dumps({"units": seen}), flush=True)
    return 0


def _all(first: int, count: int, cache: Path) -> int:
    """Batches in processes of their own. Returns 1 when anything was found."""
    found: list[Finding] = []
    units: Counter[str] = Counter()
    done = first
    while done < first + count:
        size = min(BATCH, first + count - done)
        command = [
            sys.executable,
            __file__,
            "--batch",
            "--seed",
            str(done),
            "--count",
            str(size),
            "--cache",
            str(cache),
        ]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
        for line in lines:
            units.update(line.get("units", {}))
            found += [Finding(**f) for f in line.get("findings", [])]
        begun = [line["begin"] for line in lines if "begin" in line]
        if run.returncode == 0:
            done += size
        else:
            last = begun[-1] if begun else done
            found.append(Finding(last, "crashed", f"exit {run.returncode}: {run.stderr.strip()[-300:]}"))
            done = last + 1
        print(
            f"{done - first} modules, {units.total()} units, {len(found)} findings",
            file=sys.stderr,
            flush=True,
        )
    for finding in found:
        print(f"seed {finding.seed}: {finding.what}: {finding.evidence}")
    print(f"{count} modules, {units.total()} units ({dict(units.most_common())}), {len(found)} findings")
    return 1 if found else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0, help="of the first module")
    parser.add_argument("--cache", type=Path, help="folder of built units (default: a temporary one)")
    parser.add_argument("--verbose", action="store_true", help="run here, and say what each module does")
    parser.add_argument("--batch", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cache = args.cache or Path(folder)
        if args.batch or args.verbose:
            return _batch(args.seed, args.count, cache, args.verbose)
        return _all(args.seed, args.count, cache)


if __name__ == "__main__":
    sys.exit(main())
