"""Which recorded winners stand for all kernels of an expert: as few tasks as hold every technique that won.

In: the tables of a campaign (`results/h200/kernelbench.jsonl`, `campaign/*.tar.gz`), rows of `benchmarks/emitted_units.py record`.
Out: a folder with `winners.json` and each winner's task, as it was judged. Techniques that are offered and never won are
taken from the smallest task that is offered them, and say so (`"recorded": false`).
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import benchmarks_on_path  # noqa: F401 - for the import that follows
from json_lines import known_lines

from warpsmith.processes.buffers import Scratch
from warpsmith.records import Task
from warpsmith.tasks import suites
from warpsmith.tasks.load import load_task

CORE = Path(suites.__file__).parent / "core"
REDUCTIONS = ("norm", "softmax", "loss")  # families that share the kernels of `reduction`
Kind = tuple[str, str]  # family, technique


@dataclass(frozen=True)
class Part:
    """One unit of a candidate by name. Without nodes it covers the first region that is offered the technique."""

    family: str
    technique: str
    nodes: tuple[str, ...] = ()
    values: Mapping[str, int] | None = None  # None: the default ones

    @property
    def kind(self) -> Kind:
        return kind_of(self.family, self.technique)


@dataclass(frozen=True)
class Winner:
    task_name: str  # level1/40, core/name
    task: Task
    parts: tuple[Part, ...]
    recorded: bool
    target: str = "cuda"

    @property
    def name(self) -> str:
        """One task may stand for what won on it and for what is only offered."""
        return self.task_name if self.recorded else f"{self.task_name} {self.parts[0].technique}"

    @property
    def kinds(self) -> set[Kind]:
        return {part.kind for part in self.parts}

    @property
    def file(self) -> str:
        return f"{self.name.replace('/', '_').replace(' ', '_')}.json"


def kind_of(family: str, technique: str) -> Kind:
    return ("reduction" if family in REDUCTIONS else family), technique


def read_campaign(results: Path) -> dict[str, tuple[Task, Winner | None]]:
    """Each judged task, and the units that won on it."""
    read = {}
    for row in known_lines(results / "kernelbench.jsonl"):
        archive = results / "campaign" / f"{row['task'].replace('/', '_')}.tar.gz"
        if archive.exists():
            read[row["task"]] = read_task(row, archive)
    return read


def read_task(row: Mapping[str, Any], archive: Path) -> tuple[Task, Winner | None]:
    with tarfile.open(archive) as tar:
        members = {Path(m.name): m for m in tar.getmembers()}
        (task_file,) = (m for p, m in members.items() if p.parent.name == "tasks")
        task = Task.model_validate_json(read_member(tar, task_file))
        file = next((m for p, m in members.items() if p.stem == row.get("candidate")), None)
        if row["status"] != "win" or file is None:
            return task, None
        # Not as a record: a later version of it may give old names today's.
        units = json.loads(read_member(tar, file))["units"]
    return task, Winner(row["task"], task, tuple(part_of(unit) for unit in units), recorded=True)


def read_member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file is not None
    return file.read()


def part_of(unit: Mapping[str, Any]) -> Part:
    values = {t["name"]: t["value"] for t in unit["tunables"]}
    return Part(unit["family"], unit["technique"], tuple(unit["region"]["nodes"]), values)


def cover(winners: Iterable[Winner], kinds: set[Kind]) -> Iterator[Winner]:
    """Winners until every kind is held: next the one that adds most, of equals that with the least bytes."""
    waiting, missing = list(winners), set(kinds)
    while missing:
        best = max(waiting, key=lambda w: (len(w.kinds & missing), -w.task.graph.least_bytes))
        if not best.kinds & missing:
            return
        missing -= best.kinds
        waiting.remove(best)
        yield best


def list_offers(rows: Path, machine: str) -> dict[Kind, dict[str, Part]]:
    """What the expert offers a machine: of each kind the tasks, by `level1/40` or `core/name`, and the part."""
    offers: dict[Kind, dict[str, Part]] = {}
    for row in known_lines(rows):
        if row.get("machine") == machine:
            level, _, name = row["task"].partition("/")
            task = f"{level}/{name.split('_')[0]}" if level.startswith("level") else row["task"]
            kind = kind_of(row["family"], row["technique"])
            offers.setdefault(kind, {}).setdefault(task, Part(row["family"], row["technique"]))
    return offers


def choose(
    results: Path, rows: Path, also: Sequence[str] = (), machine: str = "h200"
) -> tuple[list[Winner], list[Kind]]:
    """The winners, those on the tasks `also`, too; and the kinds that won and are not offered any more."""
    campaign, offers = read_campaign(results), list_offers(rows, machine)
    winners = [winner for _, winner in campaign.values() if winner is not None]
    won = {kind for winner in winners for kind in winner.kinds}
    still = [w for w in winners if w.kinds <= offers.keys()]
    chosen = list(cover(still, won & offers.keys()))
    chosen += [w for w in winners if w.task_name in also and w not in chosen]
    held = {kind for winner in chosen for kind in winner.kinds}
    for kind in sorted(offers.keys() - held):
        if (winner := choose_offered(campaign, offers[kind])) is not None:
            chosen.append(winner)
    return chosen, sorted(won - offers.keys())


def choose_offered(
    campaign: Mapping[str, tuple[Task, Winner | None]], offered: Mapping[str, Part]
) -> Winner | None:
    """The smallest of the campaign's tasks, else of the core suite's."""
    tasks = {name: campaign[name][0] for name in offered if name in campaign}
    if not tasks:
        files = {name: CORE / f"{Path(name).name}.py" for name in offered if name.startswith("core/")}
        tasks = {name: export(file) for name, file in files.items()}
    if not tasks:
        return None
    name = min(tasks, key=lambda n: tasks[n].graph.least_bytes)
    return Winner(name, tasks[name], (offered[name],), recorded=False)


def export(file: Path) -> Task:
    with Scratch() as scratch:
        return load_task(str(file), scratch=scratch, timeout=120.0)


def choose_files(files: Sequence[Path], kinds: Sequence[str], target: str) -> list[Winner]:
    """Any task with a technique that is offered for it: `kinds` are FAMILY/TECHNIQUE, one a file."""
    parts = [Part(*kind.split("/", 1)) for kind in kinds]
    named = zip(files, parts, strict=True)
    return [Winner(file.stem, export(file), (part,), False, target) for file, part in named]


def write_winners(folder: Path, winners: Sequence[Winner]) -> None:
    (folder / "tasks").mkdir(parents=True, exist_ok=True)
    rows = []
    for winner in winners:
        (folder / "tasks" / winner.file).write_text(winner.task.model_dump_json())
        rows.append({
            "name": winner.name, "file": winner.file, "target": winner.target, "recorded": winner.recorded,
            "parts": [asdict(part) for part in winner.parts],
        })  # fmt: skip
    (folder / "winners.json").write_text(json.dumps(rows, indent=1) + "\n")
