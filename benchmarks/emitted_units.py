"""Every unit that the expert writes, as hashes: the net under a change that must not change kernels.

    python benchmarks/emitted_units.py record before.jsonl --cache /tmp/graphs [--kernelbench KernelBench/KernelBench] [--texts FOLDER]
    python benchmarks/emitted_units.py compare before.jsonl after.jsonl

Each task is exported once and kept under `--cache` (that takes most of the time). For each target and each of `MACHINES`,
whose figures are fixed here, every region of every plan is written by every technique that a family offers for it: at
its default values and at some others, which a hash chooses. A row holds what names the unit and a hash of its text.
`compare` prints what is gone, what is new and what differs, and exits 1 if anything does.

    python benchmarks/emitted_units.py machine-code before.jsonl --texts FOLDER [--sample 30]

adds to some rows the hash of the machine code that their texts compile to, symbols' names left out: texts that were
renamed must compile to the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from machine_code import machine_code_hash

from warpsmith.agents.expert.ideas import variants
from warpsmith.agents.expert.planner import plans
from warpsmith.codegen.program import Unsupported
from warpsmith.errors import TaskError, WarpsmithError
from warpsmith.facts import Facts
from warpsmith.kernels.registry import families_of
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Graph, Region, Task, Unit
from warpsmith.records.technique_names import current_technique, current_values
from warpsmith.tasks.load import load_suite, load_task

ROOT = Path(__file__).resolve().parent.parent
MACHINES = {
    "avx2": Facts(threads=8),
    "avx512": Facts(threads=32, vector=16, registers=32, l1_bytes=48 << 10, l2_bytes=2 << 20, l3_bytes=64 << 20),
    "h200": Facts(threads=16, bandwidth=3.6e12, flop_rate=5e13, target="cuda", arch="sm_90a"),
    "a100": Facts(threads=16, bandwidth=1.4e12, flop_rate=1.9e13, target="cuda", arch="sm_80"),
}  # fmt: skip
OTHERS = 3  # settings of a technique beside its default one
LEVELS = (1, 2, 3)
Row = dict[str, Any]


def task_files(kernelbench: Path | None) -> dict[str, Path]:
    """Names of tasks and where they are: the core suite, the examples, KernelBench where there is one."""
    named = {f"core/{p.stem}": p for p in load_suite("core")}
    named |= {f"examples/{p.stem}": p for p in load_suite(str(ROOT / "examples"))}
    if kernelbench is not None:
        for level in LEVELS:
            named |= {f"level{level}/{p.stem}": p for p in load_suite(str(kernelbench / f"level{level}"))}
    return named


def load_graph(path: Path, kept: Path) -> Graph | None:
    """The main graph, from `kept` where it was exported before; None where the task does not load."""
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with Scratch() as scratch:
            try:
                text = load_task(str(path), scratch=scratch, timeout=120).model_dump_json()
            except WarpsmithError as error:
                text = json.dumps({"refused": str(error)})
        kept.write_text(text)
    text = kept.read_text()
    return None if text.startswith('{"refused"') else Task.model_validate_json(text).main.graph


def list_regions(graph: Graph, facts: Facts) -> list[Region]:
    """Those of all plans, each once."""
    return list({r.id: r for plan in plans(graph, facts) for r in plan}.values())


def write_units(graph: Graph, region: Region, facts: Facts) -> Iterator[Unit]:
    """By every technique that is offered, at its default values and at `OTHERS` more."""
    for family in families_of(facts.target).values():
        try:
            offered = family.techniques(graph, region, facts)
        except Unsupported:
            continue
        for technique in offered:
            first, *rest = variants(technique)
            rest.sort(key=lambda t: hash_text(f"{region.id} {t.name} {[v.value for v in t.tunables]}"))
            for chosen in (first, *rest[:OTHERS]):
                try:
                    yield family.write(graph, region, chosen)
                except (Unsupported, TaskError):  # a search asks only the family that grew the region
                    break


def hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def describe_unit(task: str, machine: str, unit: Unit) -> Row:
    return {
        "task": task, "machine": machine, "region": unit.region.id, "family": unit.family,
        "technique": unit.technique, "values": {t.name: t.value for t in unit.tunables},
        "flags": list(unit.flags), "text": hash_text(unit.source),
    }  # fmt: skip


def record_task(named: tuple[str, Path], cache: Path, texts: Path | None) -> list[Row]:
    """All rows of a task; texts are written to files named by their hash."""
    name, path = named
    graph = load_graph(path, cache / f"{name}.json")
    if graph is None:
        return [{"task": name, "refused": True}]
    rows = []
    for machine, facts in MACHINES.items():
        for region in list_regions(graph, facts):
            for unit in write_units(graph, region, facts):
                row = describe_unit(name, machine, unit)
                rows.append(row)
                if texts is not None:
                    keep_text(texts, row, unit, graph)
    return rows


def keep_text(texts: Path, row: Row, unit: Unit, graph: Graph) -> None:
    """The unit and its graph, for whoever builds it."""
    file = texts / f"{row['text']}.json"
    if not file.exists():
        file.write_text(
            json.dumps({"unit": unit.model_dump(mode="json"), "graph": graph.model_dump(mode="json")})
        )


def record(options: argparse.Namespace) -> int:
    named = task_files(options.kernelbench)
    if options.only:
        named = {n: p for n, p in named.items() if n.startswith(tuple(options.only))}
    if options.texts is not None:
        options.texts.mkdir(parents=True, exist_ok=True)
    work = partial(record_task, cache=options.cache, texts=options.texts)
    rows: list[Row] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for count, made in enumerate(pool.map(work, named.items()), 1):
            rows += made
            print(f"\r{count} of {len(named)} tasks, {len(rows)} units", end="", file=sys.stderr, flush=True)
    options.rows.write_text("".join(json.dumps(row) + "\n" for row in rows))
    refused = sum("refused" in row for row in rows)
    print(f"\n{len(named)} tasks ({refused} do not load), {len(rows) - refused} units")
    return 0


def read_rows(path: Path) -> dict[tuple[str, ...], Row]:
    """Rows by what names a unit."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {key_of(row): row for row in rows if "refused" not in row}


def key_of(row: Row) -> tuple[str, ...]:
    """A recording from before a technique was renamed is compared with one from after it."""
    family, technique = row["family"], row["technique"]
    values = current_values(family, technique, row["values"])
    place = (row["task"], row["machine"], row["region"], family, current_technique(family, technique))
    return (*map(str, place), json.dumps(values, sort_keys=True))


def compare(options: argparse.Namespace) -> int:
    before, after = read_rows(options.rows), read_rows(options.after)
    gone, new = before.keys() - after.keys(), after.keys() - before.keys()
    both = before.keys() & after.keys()
    differ = {k for k in both if before[k]["text"] != after[k]["text"]}
    code = [k for k in both if "code" in before[k] and "code" in after[k]]
    other_code = {k for k in code if before[k]["code"] != after[k]["code"]}
    for what, keys in (("gone", gone), ("new", new), ("text differs", differ), ("code differs", other_code)):
        for key in sorted(keys)[: options.show]:
            print(f"{what}: {' '.join(key)}")
    print(
        f"{len(before)} units before, {len(after)} after: {len(both) - len(differ)} texts identical, {len(differ)} differ, "
        f"{len(gone)} gone, {len(new)} new; machine code of {len(code)}: {len(other_code)} differ"
    )
    return int(bool(gone or new or other_code or differ))


def add_machine_code(options: argparse.Namespace) -> int:
    """To the rows whose keys have the smallest hashes: the same ones in every recording."""
    rows = [json.loads(line) for line in options.rows.read_text().splitlines()]
    for target in ("cpu", "cuda"):
        for row in choose_sample(rows, target, options.sample):
            row["code"] = machine_code_hash(options.texts / f"{row['text']}.json")
            print(f"{row['code']} {' '.join(key_of(row))}", flush=True)
    options.rows.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return 0


def choose_sample(rows: Iterable[Row], target: str, count: int) -> Sequence[Row]:
    """At most one a technique, so that many techniques are in it."""
    of_target = [r for r in rows if "refused" not in r and MACHINES[r["machine"]].target == target]
    of_target = [r for r in of_target if r["machine"] in ("avx2", "h200")]
    of_target.sort(key=lambda r: hash_text(f"{r['task']} {r['region']} {r['values']}"))
    first: dict[tuple[str, str], Row] = {}
    for row in of_target:
        first.setdefault((row["family"], row["technique"]), row)
    return list(first.values())[:count]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(required=True)
    one = verbs.add_parser("record")
    one.add_argument("rows", type=Path)
    one.add_argument("--cache", type=Path, required=True, help="folder of exported graphs")
    one.add_argument("--kernelbench", type=Path, help="the folder that holds level1, level2 and level3")
    one.add_argument("--texts", type=Path, help="folder for the units' texts")
    one.add_argument("--only", nargs="+", help="beginnings of tasks' names: core level1/10")
    one.add_argument("--jobs", type=int, default=2)
    one.set_defaults(run=record)
    two = verbs.add_parser("compare")
    two.add_argument("rows", type=Path)
    two.add_argument("after", type=Path)
    two.add_argument("--show", type=int, default=20, help="lines of each kind")
    two.set_defaults(run=compare)
    three = verbs.add_parser("machine-code")
    three.add_argument("rows", type=Path)
    three.add_argument("--texts", type=Path, required=True)
    three.add_argument("--sample", type=int, default=1000, help="techniques of each target")
    three.set_defaults(run=add_machine_code)
    return parser.parse_args()


if __name__ == "__main__":
    options = parse_arguments()
    sys.exit(options.run(options))
