"""Pack what the built-in expert writes in CUDA C++ for KernelBench and core tasks as one bundle, to be judged on a machine with a GPU.

In: a checkout of KernelBench and names of its tasks (`level1/40`), names of the suite `core`, exported at their own shapes. Out: a
bundle with a few candidates a task: the expert's first cut of the graph with the first technique of each region, then other
techniques and values of its tunables, the most promising first; tasks with the least bytes first. No GPU and no nvcc are needed.

With `--memory GIB` a task that needs more of the host gets its batch divided, as in `authored.py`; with `--dtype` it is converted
(`narrow_task.py`). The judging is the bundle's:
resumable, a journal of JSON lines, each task's time bounded by the judge.

With `--looks FILE` (rows of `cuda_look.py`) a task's candidates begin with the fastest units seen there that are still written; with `--authored`
the unit beside this file in `authored/` that is named after the task is one more.

    python lab/cuda_expert.py KERNELBENCH OUT [--task NAME …] [--candidates N] [--memory GIB] [--looks FILE …] [--authored] [--canary N] [--dtype bfloat16]
    warpsmith bundle run OUT --out results --limit-time 25m        # where the GPU is; the same command goes on
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from authored import TIMEOUT, UNITS, load_within
from narrow_task import DTYPES, narrow_task

from warpsmith.agents.expert.brain import hypotheses, plans, write_units
from warpsmith.agents.expert.planner import Plan
from warpsmith.bundles.bundle import make_bundle
from warpsmith.bundles.gather import Gathered
from warpsmith.errors import UsageError, WarpsmithError
from warpsmith.facts import Facts
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Candidate, Hypothesis, Lineage, Region, Task, Unit
from warpsmith.search.tuner import with_values
from warpsmith.tasks import suites
from warpsmith.tasks.load import load_task

CORE = Path(suites.__file__).parent / "core"
# What an H200 is said to do; only the order of candidates depends on it.
FACTS = Facts(threads=16, bandwidth=4.2e12, flop_rate=5e13, target="cuda")
MEMORY_BOUND = (
    *(f"level1/{n}" for n in (
        23, 24, 25, 26, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 51, 52, 53, 88, 89, 90, 91,
        92, 93, 94, 95, 96, 97, 98, 99, 100,
    )),
    *(f"level2/{n}" for n in (12, 14, 22, 29, 30, 37, 40, 53, 56, 62, 63, 70, 76, 81, 84, 86, 88, 94, 95, 97, 98, 99)),
)  # fmt: skip

NEAR = 1.2  # times the fastest look: the best of another technique is judged before more values of the fastest one


class Look(NamedTuple):
    """What was seen of a candidate: how many times as fast as ATen it was, and its units as cuda_look.py names them."""

    speed: float
    label: str

    @property
    def parts(self) -> list[tuple[str, str, dict[str, int]]]:
        """(family or "", technique, values) of each unit: "matmul/wgmma BK=64,NT=1 + fused UNROLL=1". Raises ValueError."""
        found = []
        for part in self.label.split(" + "):
            name, _, values = part.strip().partition(" ")
            family, _, technique = name.rpartition("/")
            pairs = [v.partition("=") for v in values.split(",") if v]
            found.append((family, technique, {n: int(value) for n, _, value in pairs}))
        return found


def as_exact(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Of the candidates that were timed, those about as exact as the library."""
    most = 4 * row.get("library", {}).get("error", 0.0) + 2e-6
    timed = [c for c in row.get("candidates", []) if "us" in c]
    return [c for c in timed if not c.get("error", 0.0) > most]  # NaN, too: the library's are no better then


def techniques(label: str) -> str:
    """A label without values."""
    return " + ".join(part.split(" ")[0] for part in label.split(" + "))


def looks(paths: Sequence[Path]) -> dict[str, list[Look]]:
    """What rows of cuda_look.py saw of each task, the fastest first; only what was about as exact as ATen. Raises UsageError."""
    found: dict[str, list[Look]] = {}
    for path in paths:
        try:
            for row in map(json.loads, path.read_text().splitlines()):
                if "us" in (library := row.get("library", {})):
                    seen = [Look(library["us"] / c["us"], c["label"]) for c in as_exact(row)]
                    found.setdefault(row["task"], []).extend(seen)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{path} holds no rows of cuda_look.py: {error}") from error
    return {task: _fastest_first(seen) for task, seen in found.items()}


def _fastest_first(seen: Sequence[Look]) -> list[Look]:
    """The fastest of all, those of other techniques that are near it, the others."""
    ordered = sorted(dict.fromkeys(seen), key=lambda look: -look.speed)
    best: dict[str, Look] = {}  # by technique
    for look in ordered:
        best.setdefault(techniques(look.label), look)
    near = [look for look in best.values() if look.speed * NEAR >= ordered[0].speed]
    return [*near, *(look for look in ordered if look not in near)]


def files(kernelbench: Path, names: Sequence[str]) -> list[Path]:
    """Task files by name: `level1/40`, or a task of the suite core. Raises UsageError."""
    found = []
    for name in names:
        level, _, number = name.partition("/")
        roots = (kernelbench / "KernelBench" / level, kernelbench / level)
        own = [f for root in roots for f in sorted(root.glob(f"{number}_*.py"))] if number else []
        own = own or ([CORE / f"{name}.py"] if (CORE / f"{name}.py").is_file() else [])
        if not own:
            raise UsageError(
                f"no task {name}: level1/40 names one of KernelBench, layernorm_last one of core"
            )
        found.append(own[0])
    return found


def by_hand(name: str) -> list[Path]:
    """Units that people wrote for a task."""
    return sorted(UNITS.glob(f"{name.replace('/', '_')}_*.cu"))


def candidates(task: Task, most: int, seen: Sequence[Look] = ()) -> list[tuple[Candidate, Hypothesis]]:
    """All regions of a cut at once, first with their best units, then with others in turn: of the two cuts that write most
    of the arithmetic anew, and of the best one that leaves to the library what takes most of it. The last two may be
    the better ones: what the library takes is not known here. Half of them, the first, are the best of `seen` that are
    still written; more only where there are too few others.
    """
    ideas = hypotheses(task.graph, FACTS, [], 1000)
    by_name, cuts = task.graph.by_name, plans(task.graph, FACTS)
    cuts.sort(key=lambda p: -sum(by_name[n].flops for r in p for n in r.nodes))
    heavy = max((by_name[n] for r in cuts[0] for n in r.nodes), key=lambda n: n.flops) if cuts else None
    narrow = [p for p in cuts if heavy is not None and all(heavy.name not in r.nodes for r in p)]
    rows = [list(_of_cut(task, plan, ideas, most)) for plan in cuts[:2] + narrow[:1]]
    first = list(_as_seen(task, cuts, ideas, seen, most))
    half = (most + 1) // 2
    own = [pair for row in zip_longest(*rows) for pair in row if pair is not None]
    found: dict[str, tuple[Candidate, Hypothesis]] = {}
    for pair in (*first[:half], *own, *first[half:]):
        found.setdefault(pair[0].content_key, pair)
    return list(found.values())[:most]


def _as_seen(
    task: Task, cuts: Sequence[Plan], ideas: Sequence[Hypothesis], seen: Sequence[Look], most: int
) -> Iterator[tuple[Candidate, Hypothesis]]:
    """At most `most` that were seen. Says in one line how many of those passed over are written no more."""
    lost: list[str] = []
    for look in seen:
        if most == 0:
            break
        if (found := _remade(task, cuts, ideas, look)) is None:
            lost.append(look.label)
        else:
            most -= 1
            yield found
    if lost:
        print(
            f"{task.name}: {len(lost)} looks are of units that are written no more: {lost[0]} …", flush=True
        )


def _remade(
    task: Task, cuts: Sequence[Plan], ideas: Sequence[Hypothesis], look: Look
) -> tuple[Candidate, Hypothesis] | None:
    """The candidate that was seen, by the first cut whose regions have such units."""
    try:
        parts = look.parts
    except ValueError:
        return None
    order = {n.name: i for i, n in enumerate(task.graph.nodes)}
    for plan in cuts:
        regions = sorted(
            (r for r in plan if any(h.region == r for h in ideas)), key=lambda r: order[r.nodes[0]]
        )
        if len(regions) != len(parts):
            continue
        units = [_unit_of(task, ideas, r, *part) for r, part in zip(regions, parts, strict=True)]
        found = [pair for pair in units if pair is not None]
        if len(found) == len(parts):
            return _candidate(task, tuple(u for _, u in found), found[0][0])
    return None


def _unit_of(
    task: Task,
    ideas: Sequence[Hypothesis],
    region: Region,
    family: str,
    technique: str,
    values: dict[str, int],
) -> tuple[Hypothesis, Unit] | None:
    for idea in ideas:
        if idea.region == region and idea.technique == technique and family in ("", idea.family):
            for unit in write_units(task.graph, idea, 1, FACTS):
                domains = {t.name: t.domain for t in unit.tunables}
                if all(value in domains.get(name, ()) for name, value in values.items()):
                    return idea, with_values(unit, values)
    return None


def _candidate(task: Task, units: tuple[Unit, ...], idea: Hypothesis) -> tuple[Candidate, Hypothesis]:
    branch = " + ".join(u.technique for u in units)
    lineage = Lineage(agent="synthesis", hypothesis=idea.id, branch=branch)
    return Candidate(task_id=task.id, target="cuda", units=units, lineage=lineage), idea


def _of_cut(
    task: Task, plan: Plan, ideas: Sequence[Hypothesis], most: int
) -> Iterator[tuple[Candidate, Hypothesis]]:
    columns = [_units(task, [h for h in ideas if h.region == region], most) for region in plan]
    columns = [c for c in columns if c]
    order = {n.name: i for i, n in enumerate(task.graph.nodes)}
    for row in range(max(map(len, columns), default=0)):
        picked = [c[min(row, len(c) - 1)] for c in columns]
        units = tuple(sorted((u for _, u in picked), key=lambda u: order[u.region.nodes[0]]))
        yield _candidate(task, units, picked[0][0])


def _units(task: Task, ideas: Sequence[Hypothesis], most: int) -> list[tuple[Hypothesis, Unit]]:
    """The first unit of each idea for a region before second ones of any."""
    written = [[(h, u) for u in write_units(task.graph, h, most, FACTS)] for h in ideas]
    return [pair for row in zip_longest(*written) for pair in row if pair is not None][:most]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kernelbench", type=Path, help="a checkout of KernelBench")
    parser.add_argument("out", type=Path, help="a new folder, or a file that ends in .tar.gz")
    parser.add_argument(
        "--task", action="append", default=[], help="level1/40 or the name of a core task; repeatable"
    )
    parser.add_argument("--candidates", type=int, default=6, help="of each task, at most")
    parser.add_argument(
        "--memory", type=float, default=inf, help="GiB of host memory that judging a task may need"
    )
    parser.add_argument(
        "--looks", type=Path, action="append", default=[], help="rows of cuda_look.py; repeatable"
    )
    parser.add_argument("--authored", action="store_true", help="units by hand, too, where there are")
    parser.add_argument("--canary", type=int, default=0, help="candidates to judge again at the end")
    parser.add_argument("--dtype", choices=DTYPES, help="of the tasks; default: their own")
    given = parser.parse_args(arguments)
    gathered = Gathered("cuda")
    try:
        tasks: list[tuple[str, Task]] = []
        names, seen = given.task or MEMORY_BOUND, looks(given.looks)
        with Scratch() as scratch, TemporaryDirectory() as folder:
            for name, file in zip(names, files(given.kernelbench, names), strict=True):
                try:
                    source = narrow_task(file, given.dtype, Path(folder)) if given.dtype else file
                    tasks.append((name, _load(source, scratch, given.memory * 2**30)))
                except WarpsmithError as error:
                    print(f"left out: {error}", file=sys.stderr, flush=True)
        for name, task in sorted(tasks, key=lambda pair: pair[1].graph.least_bytes):
            made = candidates(task, given.candidates, seen.get(name, ()))
            print(
                f"{task.name:40s} {', '.join(c.lineage.branch for c, _ in made) or 'nothing to propose'}",
                flush=True,
            )
            if made:
                gathered.add_task(task)
                gathered.candidates |= {c.id: c for c, _ in made}
                gathered.hypotheses |= {h.id: h for _, h in made}
            for unit in by_hand(name) if given.authored and not given.dtype else ():
                print(f"{task.name:40s} by hand: {unit.stem}", flush=True)
                gathered.add_task(task)
                gathered.add_units(task, [unit])
        bundle = make_bundle(
            "cuda",
            gathered.tasks.values(),
            gathered.candidates.values(),
            gathered.hypotheses.values(),
            given.canary,
        )
        bundle.write(given.out)
    except WarpsmithError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(f"wrote {given.out}: {len(bundle.tasks)} tasks, {len(bundle.candidates)} candidates")
    return 0


def _load(file: Path, scratch: Scratch, memory: float) -> Task:
    if file.parent == CORE:
        return load_task(str(file), scratch=scratch, timeout=TIMEOUT)
    return load_within(file, scratch, memory)


if __name__ == "__main__":
    raise SystemExit(main())
