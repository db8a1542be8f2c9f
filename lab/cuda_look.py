"""A first look at the built-in expert's CUDA on KernelBench tasks: is it right, how long does it take, in which kernels.

In: a checkout of KernelBench and a GPU. Out: JSON lines, a task each. **No judge takes part**: inputs are drawn on the GPU, a candidate is called in
one process, the median of a few calls is taken. So it looks at a hundred tasks in the time in which a few are judged, and nothing that it says is a
result: it shows which units are wrong or slow, which have to be mended before they are worth judging.

Beside OUT.jsonl lies OUT.md, the same as a table. `error` is ‖out - exact‖ / ‖exact‖ of the worst output, where `exact` is the graph in float64 on the GPU; `library` the same of the graph in ATen.

With `--values` each candidate of one unit is also looked at with every other value of one of its tunables; with `--authored` the units by hand
(`authored/`) come first. `--counters N`: hardware counters of each task's N fastest candidates (`cuda_counters.py`).

    python lab/cuda_look.py KERNELBENCH OUT.jsonl [--task level1/40 …] [--candidates 6] [--values] [--authored] [--counters N] [--jobs 12] [--seconds 500]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from datetime import date
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from cuda_counters import count
from cuda_expert import as_exact, by_hand, candidates, files, techniques

from warpsmith.bundles.gather import Gathered
from warpsmith.errors import WarpsmithError
from warpsmith.machine import describe
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Graph, GraphInput, Region
from warpsmith.runtime.deployed import deploy
from warpsmith.runtime.interpreter import run_graph
from warpsmith.search.tuner import at_other_values
from warpsmith.targets.cuda import CudaTarget
from warpsmith.tasks.load import load_task
from warpsmith.tasks.values import literal_tensor, torch_dtype

BUILDS = 4  # candidates of a task that are built at once
PATIENCE = 90.0  # seconds for one candidate on the GPU
EXACT_FLOPS, EXACT_BYTES = 2e12, 8e9  # beyond these a graph is not run in float64
Made = dict[str, Any]  # {"label", "parts": [(region, library)], "failed"}
context = multiprocessing.get_context("spawn")


def prepare(
    file: Path, most: int, values: bool, written: Sequence[Path], cache: Path, arch: str
) -> tuple[Graph, list[Made]]:
    """The task's graph, and candidates for it, built: `written` by hand, then the expert's."""
    with Scratch() as scratch:
        task = load_task(str(file), scratch=scratch, timeout=120.0)
    target, made = CudaTarget(cache, arch=arch or None), []
    gathered = Gathered("cuda")
    gathered.add_task(task)
    for unit in written:
        gathered.add_units(task, [unit])
    units = [c.units for c in gathered.candidates.values()] + [c.units for c, _ in candidates(task, most)]
    if values:
        units = list(
            dict.fromkeys((u,) for one in units if len(one) == 1 for u in (one[0], *at_other_values(one[0])))
        )
    # Units in ATen rewrite the graph, which `deploy` is not told here.
    compiled = [made_of for made_of in units if all(u.compiled for u in made_of)]
    with ThreadPoolExecutor(BUILDS) as pool:
        built = pool.map(lambda made_of: [target.build(u, task.graph, "main") for u in made_of], compiled)
    for made_of, builds in zip(compiled, built, strict=True):
        wrong = [d.message for b in builds if not b.ok for d in b.diagnostics if d.kind != "warning"]
        label = " + ".join(f"{u.family}/{u.technique} {_values(u.values)}" for u in made_of)
        parts = [(u.region, b.library) for u, b in zip(made_of, builds, strict=True)]
        made.append({"label": label, "parts": parts, "failed": "; ".join(wrong)[:400]})
    return task.graph, made


def _values(values: dict[str, int]) -> str:
    return ",".join(f"{name}={value}" for name, value in values.items())


def serve(pipe: Connection) -> None:
    """The process that has the GPU: answers (name, graph, parts) with what was seen; no parts: all in ATen."""
    inputs: list[torch.Tensor] = []
    exact: list[torch.Tensor] | None = None
    known = ""
    while True:
        try:
            name, graph, parts = pipe.recv()
        except EOFError:
            return  # whoever asked is gone
        try:
            if name != known:
                inputs, exact = [], None
                torch.cuda.empty_cache()
                inputs = draw(graph)
                exact, known = in_float64(graph, inputs), name
            pipe.send(look(graph, parts, inputs, exact))
        except Exception as error:  # noqa: BLE001 - a unit may fail in any way; what it said is the answer
            pipe.send({"failed": f"{type(error).__name__}: {error}".splitlines()[0][:300]})
            if "CUDA error" in str(error) or "illegal" in str(error):
                return  # the context is of no more use


def draw(graph: Graph) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [_drawn(item) for item in graph.inputs]


def _drawn(item: GraphInput) -> torch.Tensor:
    if item.data:
        return literal_tensor(item).cuda()
    dtype = torch_dtype(item.spec.dtype)
    made = torch.empty_strided(item.spec.shape, item.spec.stride, dtype=dtype, device="cuda")
    if not dtype.is_floating_point:
        return made.random_(0, 2)
    if item.role == "input":
        return made.normal_()
    if len(item.spec.shape) < 2:
        return made.uniform_(0.5, 1.5)
    bound = (made[0].numel() or 1) ** -0.5
    return made.uniform_(-bound, bound)


def in_float64(graph: Graph, inputs: list[torch.Tensor]) -> list[torch.Tensor] | None:
    if graph.flops > EXACT_FLOPS or graph.least_bytes > EXACT_BYTES:
        return None
    names = {item.name: value for item, value in zip(graph.inputs, inputs, strict=True)}
    try:
        made = run_graph(graph, names, float64=True)
    except RuntimeError:
        return None
    return [made[o.value].clone() for o in graph.outputs if o.value is not None and o.role == "output"]


def look(
    graph: Graph, parts: Sequence[tuple[Region, str]], inputs: list[torch.Tensor], exact: list[torch.Tensor] | None
) -> dict[str, Any]:  # fmt: skip
    run = deploy(graph, [(region, Path(library)) for region, library in parts], "cuda")
    leaves = [leaf for leaf in run(inputs) if isinstance(leaf, torch.Tensor)]
    torch.cuda.synchronize()
    seen: dict[str, Any] = {}
    if exact is not None:
        seen["error"] = max(_error(a, b) for a, b in zip(leaves, exact, strict=True))
    del leaves
    seen["us"] = round(median_us(run, inputs), 1)
    seen["kernels"] = kernels(run, inputs)
    return seen


def _error(given: torch.Tensor, exact: torch.Tensor) -> float:
    off = (given.double() - exact.double()).flatten()
    return float(
        torch.linalg.vector_norm(off) / torch.linalg.vector_norm(exact.double().flatten()).clamp_min(1e-30)
    )


def median_us(run: Any, inputs: list[torch.Tensor]) -> float:
    times: list[float] = []
    began = time.monotonic()
    while len(times) < 5 or (len(times) < 50 and time.monotonic() - began < 0.15):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        run(inputs)
        last.record()
        last.synchronize()
        times.append(first.elapsed_time(last) * 1e3)
    return sorted(times)[len(times) // 2]


def kernels(run: Any, inputs: list[torch.Tensor]) -> list[tuple[str, float]]:
    """Names and microseconds of the kernels of one call, the longest first."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        run(inputs)
        torch.cuda.synchronize()
    found = [(e.key[:80], round(e.device_time_total, 1)) for e in seen.key_averages() if e.device_time_total]
    return sorted(found, key=lambda pair: -pair[1])[:6]


class Gpu:
    """The serving process, started again where a candidate took it along."""

    def __init__(self) -> None:
        self.process: Any = None

    def ask(self, name: str, graph: Graph, parts: Sequence[tuple[Region, str]]) -> dict[str, Any]:
        if self.process is None or not self.process.is_alive():
            self.pipe, theirs = context.Pipe()
            self.process = context.Process(target=serve, args=(theirs,), daemon=True)
            self.process.start()
            theirs.close()
        try:
            self.pipe.send((name, graph, parts))
            if self.pipe.poll(PATIENCE):
                answer: dict[str, Any] = self.pipe.recv()
                if "CUDA error" in answer.get("failed", ""):
                    self.process.join(10)
                return answer
            why = "no answer"
        except (EOFError, OSError):
            why = "the process ended"
        self.process.kill()
        self.process.join()
        return {"failed": why}


def row(gpu: Gpu, name: str, graph: Graph, made: list[Made]) -> dict[str, Any]:
    found: dict[str, Any] = {"task": name, "library": gpu.ask(name, graph, [])}
    found["bytes"], found["flops"] = graph.least_bytes, graph.flops
    found["candidates"] = [
        {"label": m["label"]} | ({"failed": m["failed"]} if m["failed"] else gpu.ask(name, graph, m["parts"])) for m in made
    ]  # fmt: skip
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kernelbench", type=Path, help="a checkout of KernelBench")
    parser.add_argument("out", type=Path, help="JSON lines; tasks that are in it are left out")
    parser.add_argument(
        "--task", action="append", default=[], help="level1/40; repeatable; all of levels 1 and 2 if none"
    )
    parser.add_argument("--candidates", type=int, default=6, help="of each task, at most")
    parser.add_argument(
        "--values", action="store_true", help="each value of each tunable of candidates of one unit"
    )
    parser.add_argument("--authored", action="store_true", help="units by hand, too, where there are")
    parser.add_argument(
        "--counters", type=int, default=0, help="candidates of each task whose hardware counters are read"
    )
    parser.add_argument("--jobs", type=int, default=12, help="tasks that are exported and built at once")
    parser.add_argument("--seconds", type=float, default=1e9, help="after which no further task is begun")
    parser.add_argument("--arch", default="", help="of the GPU, such as sm_90a; this machine's if not given")
    given = parser.parse_args(arguments)
    names = given.task or [f"level{level}/{n}" for level in (1, 2) for n in range(1, 101)]
    try:
        paths = dict(zip(names, files(given.kernelbench, names), strict=True))
    except WarpsmithError as error:
        parser.error(str(error))
    if not torch.cuda.is_available():
        parser.error("there is no NVIDIA GPU that torch can use: run it on a machine with one")
    end = time.monotonic() + given.seconds
    done = (
        {json.loads(line)["task"] for line in given.out.read_text().splitlines()}
        if given.out.exists()
        else set()
    )
    cache, gpu = Path(mkdtemp(prefix="look-")), Gpu()
    with given.out.open("a") as out, ProcessPoolExecutor(given.jobs, mp_context=context) as pool:
        waiting: dict[Future[tuple[Graph, list[Made]]], str] = {
            pool.submit(
                prepare,
                path,
                given.candidates,
                given.values,
                by_hand(n) if given.authored else [],
                cache,
                given.arch,
            ): n
            for n, path in paths.items()
            if n not in done
        }
        while waiting:
            ready, _ = wait(waiting, max(0.0, end - time.monotonic()), FIRST_COMPLETED)
            if not ready:
                break
            for future in ready:
                name = waiting.pop(future)
                try:
                    graph, made = future.result()
                    found = row(gpu, name, graph, made)
                    count(graph, made, found["candidates"], given.counters, cache, _drawn)
                except WarpsmithError as error:
                    found = {"task": name, "failed": str(error)}
                out.write(json.dumps(found) + "\n")
                out.flush()
                print(summary(found), flush=True)
                if time.monotonic() > end:
                    waiting.clear()
                    break
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in list((pool._processes or {}).values()):
            worker.kill()
    rows = [json.loads(line) for line in given.out.read_text().splitlines()]
    machine = describe(device="cuda")
    about = f"{date.today()}, {machine.device}, driver {machine.gpu_driver}, torch {machine.torch}. Command: `python lab/cuda_look.py"
    about += f" KERNELBENCH {given.out.name} --candidates {given.candidates}{' --values' * given.values}{' --authored' * given.authored} --jobs {given.jobs}`"
    given.out.with_suffix(".md").write_text(table(rows, about))
    return 0


def summary(found: dict[str, Any]) -> str:
    library, best, failed = found.get("library", {}), fastest(found), failures(found)
    if best is None or "us" not in library:
        return f"{found['task']}: {found.get('failed') or library.get('failed') or 'nothing ran'}; {failed} failed"
    return (
        f"{found['task']}: {library['us']:.0f} -> {best['us']:.0f} us, {library['us'] / best['us']:.2f}x, error {digits(best)} "
        f"(library {digits(library)}), {best['label'][:90]}; {failed} of {len(found['candidates'])} failed"
    )


def fastest(found: dict[str, Any]) -> dict[str, Any] | None:
    """Of those about as exact as the library, if there are any."""
    timed = [c for c in found.get("candidates", []) if "us" in c]
    return min(as_exact(found) or timed, key=lambda c: c["us"], default=None)


def failures(found: dict[str, Any]) -> int:
    return sum("failed" in c for c in found.get("candidates", []))


def digits(seen: dict[str, Any]) -> str:
    return f"{seen['error']:.0e}" if "error" in seen else "-"


def table(rows: Sequence[dict[str, Any]], about: str) -> str:
    """Markdown. `about`: what it was run on, and how."""
    lines = [
        "# A first look at the expert's CUDA kernels", "", about, "",
        "**Not judged.** One process, inputs drawn on the GPU, the median of a few calls, the fastest of the candidates that are about as exact as ATen, else of all;",
        "against the graph in ATen, which is not how anyone runs it. It says what is worth judging, and what has to be mended.", "",
        "| task | ATen µs | best µs | error | of ATen | failed | units |", "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]  # fmt: skip
    for found in sorted(rows, key=lambda r: [int(p) for p in r["task"].removeprefix("level").split("/")]):
        library, best = found.get("library", {}), fastest(found)
        aten = f"{library['us']:.0f}" if "us" in library else "-"
        if best is None:
            why = found.get("failed") or library.get("failed") or "nothing to propose"
            lines.append(
                f"| {found['task']} | {aten} | - | - | {digits(library)} | {failures(found)} | {why[:120]} |"
            )
        else:
            units = techniques(best["label"])
            cells = [
                found["task"],
                aten,
                f"{best['us']:.0f}",
                digits(best),
                digits(library),
                str(failures(found)),
                units,
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
