"""Records what a compiler and the judge say of the mistakes of `author_mistakes.py`, in units of tasks of suite core.

    python lab/author_recorder.py softmax_masked_scores rmsnorm_query_heads --out results/llm/mistakes.jsonl

For the region of each family that covers most of a task, the expert's techniques are written with each mistake in turn, built
and judged. Nothing is timed: what is wrong is wrong on a busy machine, too. A mistake that the judge lets pass (it was none there)
is recorded as that. Rows that are there already are not made again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import benchmarks_on_path  # noqa: F401
from author_mistakes import MISTAKES, Failure
from json_lines import known_lines

from warpsmith.agents.expert.ideas import Known, ideas
from warpsmith.agents.expert.planner import plans
from warpsmith.codegen.program import Unsupported
from warpsmith.facts import Facts
from warpsmith.judge.judge import Judge
from warpsmith.pipeline.summary import facts_of
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Candidate, Graph, Result, Unit
from warpsmith.targets.cpu import CpuTarget
from warpsmith.tasks.load import load_suite, load_task

TECHNIQUES = 2  # of a family's largest region
THREADS = 2  # at least, or no two can get into each other's way


def main() -> int:
    options = arguments()
    paths = {p.stem: p for p in load_suite("core")}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    done = {row["task"] for row in known_lines(options.out)}
    for name in options.tasks:
        if name not in done:
            rows = list(record(name, paths[name], options.cache))
            with options.out.open("a", encoding="utf-8") as lines:
                lines.writelines(row.model_dump_json(exclude_defaults=True) + "\n" for row in rows)
            print(f"{name}: {len(rows)} rows, {sum(r.status == 'ok' for r in rows)} let pass", flush=True)
    return 0


def record(name: str, path: Path, cache: Path) -> Iterator[Failure]:
    with Scratch() as scratch:
        task = load_task(str(path), scratch=scratch, timeout=120.0)
        target = CpuTarget(cache / "builds", threads=THREADS)
        with Judge(
            task, target, scratch=scratch, workdir=scratch.new("record"), seed=0, baselines=("eager",), peaks_cache=cache
        ) as judge:  # fmt: skip
            judge.open()
            for unit in units(task.graph, facts_of(judge)):
                for mistake in MISTAKES:
                    source = mistake.made(unit.source)
                    if source != unit.source:
                        wrong = unit.model_copy(update={"source": source})
                        found = next(
                            judge.evaluate([Candidate(task_id=task.id, target="cpu", units=(wrong,))])
                        )
                        yield row(name, wrong, mistake.name, found)


def units(graph: Graph, facts: Facts) -> Iterator[Unit]:
    """Of each family's largest region."""
    found = sorted(ideas(graph, facts, Known(), plans(graph, facts)), key=lambda i: -len(i.region.nodes))
    regions: dict[str, str] = {}
    written: dict[str, int] = {}
    for idea in found:
        family = idea.family.name
        if (
            regions.setdefault(family, idea.region.id) != idea.region.id
            or written.get(family, 0) >= TECHNIQUES
        ):
            continue
        try:
            unit = idea.family.write(graph, idea.region, idea.technique)
        except Unsupported:
            continue
        if unit.compiled:
            written[family] = written.get(family, 0) + 1
            yield unit


def row(name: str, unit: Unit, mistake: str, result: Result) -> Failure:
    broken = next((b for b in result.builds if not b.ok), None)
    told = tuple(d for d in broken.diagnostics if d.kind != "warning")[:4] if broken is not None else ()
    return Failure(
        task=name, nodes=unit.region.nodes, family=unit.family, technique=unit.technique, mistake=mistake,
        status=result.status, reason=result.reason, diagnostics=told,
        check=result.verdict.failed if result.verdict is not None else None,
    )  # fmt: skip


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="+", help="names of suite core")
    parser.add_argument("--out", type=Path, default=Path("results/llm/mistakes.jsonl"))
    parser.add_argument("--cache", type=Path, default=Path(".mistakes"), help="folder for builds and peaks")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
