"""What programmatic dependent launches give: the expert's units of a task as they are, beside the same with plain launches.

In: names of tasks of the suite `serving` (or files); nvcc, and for `time` a GPU. Out: JSON, a row a task: microseconds of both, medians of calls in turn,
each after the L2 cache was read full of other data; their ratio with a 95% interval (bootstrap over the pairs); whether both gave the same bits
each time, also in calls that follow one another without a gap. **No judge takes part**: this compares two launches, no kernel with torch.

    python lab/dependent_launch.py build FOLDER decoder_prefill_bf16 … [--arch sm_90a] [--device "NVIDIA H200"]
    python lab/dependent_launch.py time FOLDER OUT.json [--pairs 100]
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import cuda_expert
import torch
from cuda_look import draw, kernels

from warpsmith.facts import local_facts
from warpsmith.machine import describe
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Unit
from warpsmith.runtime.deployed import deploy
from warpsmith.targets.cuda import CudaTarget
from warpsmith.tasks import suites
from warpsmith.tasks.load import load_task

SERVING = Path(suites.__file__).parent / "serving"
PLAIN = """
template <class T> struct PlainParameter { using type = T; };
template <class... P>
static inline void launch_plain(
    void (*kernel)(P...), unsigned blocks, int threads, int shared, cudaStream_t on, typename PlainParameter<P>::type... arguments) {
  kernel<<<blocks, threads, shared, on>>>(arguments...);
}
"""
INCLUDE = '#include "warpsmith_cuda_launch.h"\n'
IN_A_ROW, RUNS = 50, 20


def with_plain_launches(unit: Unit) -> Unit:
    """The unit without the launch attribute and without the waits."""
    text = unit.source.replace("ws::launch_dependent(", "launch_plain(").replace(
        INCLUDE, INCLUDE + PLAIN.strip() + "\n"
    )
    text = text.replace("  ws::wait_for_earlier_launches();\n  ws::let_next_launch_begin();\n", "")
    if text == unit.source:
        raise ValueError("the unit has no dependent launch")
    return unit.model_copy(update={"source": text})


def build(folder: Path, names: Sequence[str], arch: str, device: str) -> None:
    cuda_expert.FACTS = replace(local_facts("cuda"), arch=arch, device=device)
    target = CudaTarget(folder / "cache", arch=arch)
    for name in names:
        file = Path(name) if name.endswith(".py") else SERVING / f"{name}.py"
        with Scratch() as scratch:
            task = load_task(str(file), scratch=scratch, timeout=300.0)
        (candidate, _), *_rest = cuda_expert.candidates(task, 1)
        units = [u for u in candidate.units if u.compiled]
        both = [*units, *map(with_plain_launches, units)]
        with ThreadPoolExecutor(2) as pool:
            builds = list(pool.map(lambda unit, graph=task.graph: target.build(unit, graph, "main"), both))
        for unit, done in zip(both, builds, strict=True):
            if not done.ok:
                raise SystemExit(f"{name}: {unit.technique}: {[d.message for d in done.diagnostics][:3]}")
        libraries = [Path(str(done.library)).read_bytes() for done in builds]
        regions, count = [u.region for u in units], len(units)
        row = (file.stem, task.graph, regions, libraries[:count], libraries[count:])
        (folder / f"{file.stem}.pickle").write_bytes(pickle.dumps(row))
        print(f"{file.stem}: {count} units, {' + '.join(u.technique for u in units)}", flush=True)


def measure(file: Path, pairs: int) -> dict[str, Any]:
    name, graph, regions, dependent, plain = pickle.loads(file.read_bytes())
    inputs = draw(graph)
    paths = [
        written(file, kind, libraries) for kind, libraries in (("dependent", dependent), ("plain", plain))
    ]
    runs = [deploy(graph, list(zip(regions, libraries, strict=True)), "cuda") for libraries in paths]
    truth = [leaf.clone() for leaf in runs[1](inputs) if isinstance(leaf, torch.Tensor)]
    different = 0
    for run in runs:
        for _ in range(RUNS):
            for _ in range(IN_A_ROW):
                leaves = [leaf for leaf in run(inputs) if isinstance(leaf, torch.Tensor)]
            different += not all(is_equal(a, b) for a, b in zip(leaves, truth, strict=True))
    seen = _in_turn(runs, inputs, pairs)
    ratios = [plain_us / us for us, plain_us in seen]
    rng = random.Random(0)
    drawn = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(2000))
    listed = kernels(runs[1], inputs)
    return {
        "task": name, "units": len(regions), "dependent_us": round(statistics.median(s[0] for s in seen), 1),
        "plain_us": round(statistics.median(s[1] for s in seen), 1),
        "ratio": [round(x, 3) for x in (statistics.median(ratios), drawn[50], drawn[1949])],
        "longest_kernels_us": listed, "runs_that_differ": different, "of_runs": 2 * RUNS,
    }  # fmt: skip


def written(file: Path, kind: str, libraries: Sequence[bytes]) -> list[Path]:
    folder = Path("/tmp") / f"{file.stem}-{kind}"
    folder.mkdir(exist_ok=True)
    paths = [folder / f"unit{i}.so" for i in range(len(libraries))]
    for path, library in zip(paths, libraries, strict=True):
        path.write_bytes(library)
    return paths


def is_equal(given: Any, true: Any) -> bool:
    """Tell whether they have the same bits, or are the same constant."""
    if not isinstance(given, torch.Tensor):
        return bool(given == true)
    return torch.equal(given.contiguous().view(torch.uint8), true.contiguous().view(torch.uint8))


def _in_turn(runs: Sequence[Any], inputs: list[torch.Tensor], pairs: int) -> list[tuple[float, float]]:
    evicted = torch.ones(torch.cuda.get_device_properties(0).L2_cache_size, device="cuda").expand(4, -1)
    seen = []
    for index in range(pairs + 10):
        times = {}
        for number in (0, 1) if index % 2 else (1, 0):
            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            evicted.sum()
            first.record()
            runs[number](inputs)
            last.record()
            torch.cuda.synchronize()
            times[number] = first.elapsed_time(last) * 1e3
        seen.append((times[0], times[1]))
    return seen[10:]


def write_report(file: Path, rows: list[dict[str, Any]]) -> None:
    machine = describe().model_dump() | {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    file.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=("build", "time"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+", help="tasks to build, or the file of the outcome")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--device", default="NVIDIA H200")
    parser.add_argument("--pairs", type=int, default=100)
    options = parser.parse_args()
    if options.command == "build":
        options.folder.mkdir(parents=True, exist_ok=True)
        build(options.folder, options.names, options.arch, options.device)
        return 0
    rows = []
    for file in sorted(options.folder.glob("*.pickle")):
        try:
            rows.append(measure(file, options.pairs))
        except RuntimeError as error:
            rows.append({"task": file.stem, "failed": str(error).splitlines()[0]})
        print(json.dumps(rows[-1]), flush=True)
        write_report(Path(options.names[0]), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
