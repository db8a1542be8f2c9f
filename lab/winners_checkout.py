"""The units of chosen winners as one checkout writes and builds them. Run by `winners_before_after.py` with that checkout's `src` and
`benchmarks` on PYTHONPATH, so what is imported here is that checkout's own.

    python lab/winners_checkout.py emit WINNERS OUT [--like BEFORE]
    python lab/winners_checkout.py build WINNERS OUT

`emit`: OUT/TASK.json with the units and notes, and their sources. `--like`: such a folder of an older checkout: regions and values are
those of its units; a technique or tunable is found under its name there, or under the one that `records/technique_names.py` gives it
where the checkout has that table. `build`: by the checkout's own target, with its own headers; libraries are named by their content.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import emitted_units as net
from machine_code import make_target

from warpsmith.records import Graph, Region, Task, Unit
from warpsmith.targets.cpu import CpuTarget
from warpsmith.targets.target import Target

try:
    import warpsmith.records.technique_names as names
except ModuleNotFoundError:  # a checkout from before the table
    names = None  # type: ignore[assignment]

MACHINES = {
    "cuda": "h200",
    "cpu": "avx2",
}  # whose facts units are written for: sm_90a with 132 multiprocessors
net.OTHERS = 0  # the default values alone
Row = dict[str, Any]


def list_names(family: str, technique: str) -> set[str]:
    """What this checkout may call a technique: what an older one did, or what its table of names says."""
    return {technique, names.current_technique(family, technique)} if names else {technique}


def rename_values(unit: Unit, technique: str, values: Mapping[str, int]) -> dict[str, int]:
    """Values by the names of the unit's own tunables."""
    present = names.current_values(unit.family, technique, values) if names else values
    return {
        name if name in unit.values else today: value
        for (name, value), today in zip(values.items(), present, strict=True)
    }


def read_rows(folder: Path) -> list[Row]:
    rows: list[Row] = json.loads((folder / "winners.json").read_text())
    return rows


def emit_winner(row: Row, winners: Path, like: Row | None) -> Row:
    """`like`: the same winner as an older checkout wrote it."""
    task = Task.model_validate_json((winners / "tasks" / row["file"]).read_text())
    facts = net.MACHINES[MACHINES[row["target"]]]
    regions, notes, parts = net.list_regions(task.graph, facts), [], []
    for index, part in enumerate(row["parts"]):
        old = like["parts"][index]["unit"] if like is not None and like["parts"] else None
        nodes = old["region"]["nodes"] if old is not None else part["nodes"]
        unit = find_unit(task.graph, regions, facts, part, nodes)
        if unit is None:
            missing = f"{part['family']}/{part['technique']} is not offered"
            return {"name": row["name"], "task_id": task.id, "parts": [], "notes": [missing]}
        values = {t["name"]: t["value"] for t in old["tunables"]} if old is not None else part["values"] or {}
        unit = set_values(unit, rename_values(unit, part["technique"], values), notes)
        parts.append({"unit": unit.model_dump(mode="json")})
    return {"name": row["name"], "task_id": task.id, "parts": parts, "notes": notes}


def find_unit(
    graph: Graph, regions: Sequence[Region], facts: Any, part: Row, nodes: Sequence[str]
) -> Unit | None:
    """The unit of a part, at its default values: for the region of these nodes, or for the first that is offered one."""
    names_now = list_names(part["family"], part["technique"])
    for region in regions:
        if nodes and list(region.nodes) != list(nodes):
            continue
        for unit in net.write_units(graph, region, facts):
            if unit.family == part["family"] and unit.technique in names_now:
                return unit
    return None


def set_values(unit: Unit, values: Mapping[str, int], notes: list[str]) -> Unit:
    """The unit at recorded values; what is not in a domain keeps its default, which `notes` say."""
    tunables = []
    for tunable in unit.tunables:
        value = values.get(tunable.name, tunable.value)
        if value not in tunable.domain:
            notes.append(
                f"{name_of(unit)}: {tunable.name}={value} is not in {tunable.domain}: {tunable.value}"
            )
            value = tunable.value
        tunables.append(tunable.model_copy(update={"value": value}))
    notes += [f"{name_of(unit)}: there is no tunable {name}" for name in values.keys() - unit.values.keys()]
    return unit.model_copy(update={"tunables": tuple(tunables)})


def name_of(unit: Unit) -> str:
    return f"{unit.family}/{unit.technique}"


def emit(options: argparse.Namespace) -> None:
    options.out.mkdir(parents=True, exist_ok=True)
    for row in read_rows(options.winners):
        like = json.loads((options.like / row["file"]).read_text()) if options.like is not None else None
        emitted = emit_winner(row, options.winners, like)
        (options.out / row["file"]).write_text(json.dumps(emitted))
        for index, part in enumerate(emitted["parts"]):
            (options.out / f"{Path(row['file']).stem}_{index}.cu").write_text(part["unit"]["source"])
        labels = " + ".join(name_of(Unit.model_validate(p["unit"])) for p in emitted["parts"])
        print(f"{row['name']}: {labels}; {'; '.join(emitted['notes']) or 'as recorded'}", flush=True)


def build(options: argparse.Namespace) -> None:
    (options.out / "libraries").mkdir(parents=True, exist_ok=True)
    rows = read_rows(options.winners)
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda row: build_winner(row, options.winners, options.out), rows))


def build_winner(row: Row, winners: Path, out: Path) -> None:
    """Adds to each part its library's name, or why there is none."""
    graph = Task.model_validate_json((winners / "tasks" / row["file"]).read_text()).graph
    emitted = json.loads((out / row["file"]).read_text())
    for part in emitted["parts"]:
        unit = Unit.model_validate(part["unit"])
        part["library"], part["failed"] = build_unit(unit, graph, out / "libraries")
        print(f"{row['name']} {name_of(unit)}: {part['library'] or part['failed']}", flush=True)
    (out / row["file"]).write_text(json.dumps(emitted))


def build_unit(unit: Unit, graph: Graph, folder: Path) -> tuple[str, str]:
    if not unit.compiled:
        return "", "in ATen"
    built = target_of(unit.language).build(unit, graph, "main")
    if not built.ok:
        return "", "; ".join(d.message for d in built.diagnostics)[:200]
    name = hashlib.sha256(Path(built.library).read_bytes()).hexdigest()[:16]
    shutil.copyfile(built.library, folder / f"{name}.so")
    return name, ""


def target_of(language: str) -> Target:
    """On a CPU for the threads of this machine, where the unit will run."""
    return make_target("cuda") if language == "cuda" else CpuTarget(Path(gettempdir()) / "winners-cpu")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(required=True)
    for name, verb in (("emit", emit), ("build", build)):
        one = verbs.add_parser(name)
        one.add_argument("winners", type=Path)
        one.add_argument("out", type=Path)
        one.add_argument("--like", type=Path)
        one.add_argument("--jobs", type=int, default=1)
        one.set_defaults(run=verb)
    options = parser.parse_args()
    options.run(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
