"""A task as a folder for an author, and the answers out of it.

    README.md  what to do, and the rules        task.py   the module          graph.md      graph, limits, regions
    machine.md what units are timed on
    region.md  the region that is asked for     task.h    its header          example.*     a unit as the expert writes it
    history.md what was judged so far           knowledge.md                  ask.json      which task this is
    answer/    to be filled: a file is a candidate; a folder of files is one candidate of several units

The task itself is kept in the archive, so that a folder that was edited cannot change what an answer is
judged by.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..errors import TaskError, UsageError
from ..records import Record
from . import prose, rules
from .answers import SUFFIXES, Answer, is_of_target, read_answer, read_covers
from .author import Author
from .author_views import HeaderView, TaskView
from .task_catalog import ARCHIVED

ASKED, ANSWERS = "ask.json", "answer"
MOST_ANSWERS = 64
MOST_PASSAGES = 4


class Asked(Record):
    """The task and the region that a folder was written for."""

    version: int = 1
    task: str  # id, in the archive
    name: str
    spec: str
    target: str
    nodes: tuple[str, ...]  # of the region that was asked for


def write_folder(
    author: Author,
    spec: str,
    out: Path,
    region: str = "",
    overrides: dict[str, Any] | None = None,
    gpu: str = "",
) -> Path:
    """Write (or renew) the folder of a task and one of its regions, the first proposed when none is named.

    `gpu`: the short name of one that is elsewhere, for its machine sheet. Answers that are there stay. Raises UsageError, TaskError.
    """
    expect_free(out)
    task = author.open_task(spec, overrides).task
    view = author.read_task(task).model_copy(update={"task": spec})
    header = author.header(task, region or "1")
    asked = Asked(task=view.task_id, name=view.name, spec=spec, target=view.target, nodes=header.region.nodes)
    passages = author.knowledge(f"{header.region.signature} {header.region.bound}", MOST_PASSAGES)
    files = {
        "README.md": readme(view, header),
        "graph.md": prose.graph_md(view),
        "region.md": prose.region_md(header.region),
        "task.h": header.task_h,
        "machine.md": author.machine_page(gpu),
        "history.md": prose.history_md(author.history(task)),
        "knowledge.md": prose.knowledge_md(passages),
        ASKED: asked.model_dump_json(indent=2) + "\n",
    }
    files |= {"task.py": view.source} if view.source else {}
    suffix = SUFFIXES.get(view.target, (".cpp",))[0]
    files |= {f"example{suffix}": header.example} if header.example else {}
    files |= {f"other-{n}{suffix}": source for n, source in enumerate(header.others, 1)}
    _write(out, files, view.target)
    return out


def expect_free(out: Path) -> None:
    """Raises UsageError for a place that holds something else."""
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / ASKED).is_file())):
        raise UsageError(f"{out} holds something else: name a new folder with --out")


def readme(view: TaskView, header: HeaderView) -> str:
    """Write what an author is asked to do."""
    suffix = SUFFIXES.get(view.target, (".cpp",))[0]
    nodes = ", ".join(header.region.nodes)
    pack = "`warpsmith bundle create OUT --target cuda --answers FOLDER` packs them for a machine with a GPU."
    elsewhere = f" {pack}" if view.target == "cuda" else ""
    example = f"`example{suffix}` is a unit for it that works. " if header.example else ""
    example += "`other-*` are units of other tasks that work. " if header.others else ""
    return (
        f"# Write a faster kernel for {view.name}\n\n"
        f"The module is in `task.py`, its graph in `graph.md`. Asked for is a {view.target} unit for the nodes "
        f"`{nodes}` (`region.md`, `task.h`); the other nodes run as ATen. {example}"
        "`machine.md` says what it is timed on, `history.md` what was judged so far, `knowledge.md` what may help.\n\n"
        f"1. Write units into `{ANSWERS}/`, for instance `{ANSWERS}/first{suffix}`. "
        "Each file is a candidate of its own. "
        f"A folder in `{ANSWERS}/` is one candidate of several units for different regions.\n"
        "2. A unit for other nodes than those above says so in its second line: `// covers: NODES`.\n"
        "3. Hand them in: `warpsmith tell FOLDER` builds, verifies and times them against PyTorch on this "
        "machine, prints the "
        f"verdict and keeps it. Read it, mend or improve, tell again.{elsewhere}\n\n"
        f"## Rules\n\n{header.rules}"
    )


def read_folder(folder: Path) -> tuple[Asked, list[tuple[Answer, ...]]]:
    """Which task, and each candidate's units. Raises UsageError, one line."""
    asked = read_asked(folder)
    region = ", ".join(asked.nodes)
    candidates = list(_candidates(folder / ANSWERS, asked.target))
    if not candidates:
        kind = SUFFIXES.get(asked.target, (".cpp",))[0]
        raise UsageError(f"{folder / ANSWERS} holds no answer: write a unit into it, as first{kind}")
    if len(candidates) > MOST_ANSWERS:
        raise UsageError(f"{folder / ANSWERS} holds {len(candidates)} answers, more than {MOST_ANSWERS}")
    return asked, [tuple(_read(path, region) for path in files) for files in candidates]


def read_asked(folder: Path) -> Asked:
    path = folder / ASKED
    try:
        asked = Asked.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{folder} was not written by `warpsmith ask`: it has no {ASKED}") from error
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "the file"
        raise UsageError(f"{path} is damaged ({where}: {problem['msg']}): ask again") from error
    if asked.version != 1:
        raise UsageError(f"{path} is of version {asked.version}: this warpsmith knows version 1")
    return asked


def find_asked_folder(file: Path) -> Path | None:
    """The folder that an answer file lies in, if one was asked for."""
    return next((p for p in file.absolute().parents[:3] if (p / ASKED).is_file()), None)


def _candidates(folder: Path, target: str) -> Iterator[tuple[Path, ...]]:
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir():
            files = tuple(sorted(p for p in path.iterdir() if is_of_target(p, target)))
            if files:
                yield files
        elif is_of_target(path, target):
            yield (path,)


def _read(path: Path, region: str) -> Answer:
    """The region that was asked for, unless the unit names its own."""
    answer = read_answer(path)
    return answer if read_covers(answer.source) else answer.model_copy(update={"region": region})


def _write(out: Path, files: dict[str, str], target: str) -> None:
    try:
        (out / ANSWERS).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (out / name).write_text(text, encoding="utf-8")
        helper = rules.helper(target)
        if helper is not None:
            shutil.copyfile(helper, out / helper.name)
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror or error}") from error


def collect(
    author: Author, paths: Sequence[Path], task: str = "", region: str = ""
) -> list[tuple[str, tuple[Answer, ...]]]:
    """(task, units) of each candidate in folders that were asked for and in unit files, those of one task together.

    `task` and `region` say what files outside such a folder are for, and overrule a folder. Raises UsageError.
    """
    collected: list[tuple[str, tuple[Answer, ...]]] = []
    for path in paths:
        ask: Asked | None
        if path.is_dir():
            ask, candidates = read_folder(path)
        else:
            ask_folder = find_asked_folder(path)
            ask = read_asked(ask_folder) if ask_folder is not None else None
            default = region or (", ".join(ask.nodes) if ask is not None else "")
            candidates = [(_read(path, default),)]
        collected += [(task or _find_asked_task(author, ask, path), units) for units in candidates]
    return sorted(collected, key=lambda item: item[0])


def target_of(paths: Sequence[Path]) -> str:
    """The target that answers were written for. Raises UsageError where they differ."""
    targets = set()
    for path in paths:
        ask_folder = path if path.is_dir() else find_asked_folder(path)
        targets.add(
            read_asked(ask_folder).target
            if ask_folder
            else "cuda"
            if path.suffix in SUFFIXES["cuda"]
            else "cpu"
        )
    if len(targets) > 1:
        raise UsageError(
            f"these answers are for {' and '.join(sorted(targets))}: tell one target's at a time"
        )
    return targets.pop()


def _find_asked_task(author: Author, asked: Asked | None, path: Path) -> str:
    if asked is None:
        raise UsageError(f"{path} is in no folder of `warpsmith ask`: say with --task what it is for")
    try:
        return author.open_task(f"{ARCHIVED}{asked.task}").task
    except TaskError as error:
        raise UsageError(
            f"the archive does not hold the task of {path}: name the archive or server it was asked with, or --task"
        ) from error
