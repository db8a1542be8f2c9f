"""An author hands in unit sources, each for a region, together one candidate.

In: texts and files that nobody vouches for. Out: a `Candidate` of disjoint units with its lineage. Here
only the form is looked at: size, text, front matter, which nodes are covered. What the code may do is the
judge's to say.

A source names its region in a comment of its first block, `// covers: REGION`: a number of the proposed
regions, names of nodes, or "all", which is also what no such line means.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from ..errors import UsageError
from ..kernels.registry import target_of
from ..records import Candidate, Graph, Lineage, Record, Task, Unit
from ..targets.front_matter import FrontMatterError, unit_from_source
from .regions import propose_regions, resolve

MAX_SOURCE_BYTES = 256 << 10  # bytes of one unit's source
MAX_UNITS = 16  # of one candidate
MAX_NOTE_CHARACTERS = 400  # characters of an author's note
SUFFIXES = {"cpu": (".cpp", ".cc", ".cxx"), "cuda": (".cu",)}
_COVERS = re.compile(r"//\s*covers:\s*(.*?)\s*$")


class Answer(Record):
    """One unit as it was handed in."""

    source: str
    region: str = ""  # what its region is; empty: what its `// covers:` line says
    name: str = "unit"  # how messages call it


def read_answer(path: Path, region: str = "") -> Answer:
    """A unit file. Raises UsageError for what cannot be one."""
    try:
        if not path.is_file():
            raise UsageError(f"{path} is not a file")
        with path.open("rb") as file:
            data = file.read(MAX_SOURCE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        return Answer(source=data[: MAX_SOURCE_BYTES + 1].decode(), region=region, name=path.name)
    except UnicodeDecodeError as error:
        if len(data) > MAX_SOURCE_BYTES:
            raise UsageError(f"{path.name} is larger than {MAX_SOURCE_BYTES >> 10} KiB") from error
        raise UsageError(f"{path} is not UTF-8 text") from error


def make_candidate(
    task: Task, target: str, answers: Sequence[Answer], *, onto: Candidate | None = None, author: str = "",
    note: str = "",
) -> Candidate:  # fmt: skip
    """The units as one candidate; with `onto`, added to that candidate's units that they leave room for.

    Raises UsageError, one line that says which unit is wrong and how.
    """
    if not 1 <= len(answers) <= MAX_UNITS:
        raise UsageError(f"a candidate has 1 to {MAX_UNITS} units, not {len(answers)}")
    if onto is not None and (onto.task_id != task.id or onto.target != target):
        raise UsageError(f"candidate {onto.id} is of another task or target")
    units = make_units(task.graph, answers, "cuda" if target == "cuda" else "c++")
    covered = {n for u in units for n in u.region.nodes}
    kept_units = [u for u in onto.units if not covered & set(u.region.nodes)] if onto is not None else []
    order = {node.name: i for i, node in enumerate(task.graph.nodes)}
    ordered = tuple(sorted([*kept_units, *units], key=lambda u: order[u.region.nodes[0]]))
    lineage = Lineage(
        parents=(onto.id,) if onto is not None else (), operator="given", agent="author",
        model=" ".join(author.split())[:80] or "author", reason=" ".join(note.split())[:MAX_NOTE_CHARACTERS],
        branch=" + ".join(u.technique or u.family or "unit" for u in ordered),
    )  # fmt: skip
    lineage = lineage.share_credit([onto.lineage] if onto is not None and kept_units else [])
    return Candidate(task_id=task.id, target=target, units=ordered, lineage=lineage)


def make_units(graph: Graph, answers: Sequence[Answer], language: Literal["c++", "cuda"]) -> list[Unit]:
    regions = propose_regions(graph, target_of(language))
    units: list[Unit] = []
    owners: dict[str, str] = {}
    for answer in answers:
        _expect_text(answer)
        region = resolve(graph, answer.region or read_covers(answer.source), regions)
        try:
            units.append(unit_from_source(answer.source, region, language=language))
        except FrontMatterError as error:
            raise UsageError(f"{answer.name}, {error}") from error
        for node in region.nodes:
            if node in owners:
                raise UsageError(
                    f"{answer.name} and {owners[node]} cover the same node {node}: hand them in one by one"
                )
            owners[node] = answer.name
    return units


def read_covers(source: str) -> str:
    """Return the region that the `// covers:` line of the first comment block names; empty: there is none."""
    for line in source.splitlines():
        if not line.lstrip().startswith("//"):
            break
        match = _COVERS.match(line.strip())
        if match is not None:
            return match[1]
    return ""


def add_covers(source: str, reference: str) -> str:
    """The source with a line that says what it covers, below its first line."""
    first, _, remainder = source.partition("\n")
    return f"{first}\n// covers: {reference}\n{remainder}"


def _expect_text(answer: Answer) -> None:
    size = len(answer.source.encode(errors="surrogatepass"))
    if size > MAX_SOURCE_BYTES:
        raise UsageError(f"{answer.name} is larger than {MAX_SOURCE_BYTES >> 10} KiB")
    odd = next(
        (c for c in answer.source if (c < " " and c not in "\t\n\r\f") or "\ud800" <= c <= "\udfff"), ""
    )
    if odd:
        raise UsageError(f"{answer.name} holds a character that no source has: U+{ord(odd):04X}")
    if not answer.source.strip():
        raise UsageError(f"{answer.name} is empty")


def is_of_target(path: Path, target: str) -> bool:
    return path.suffix in SUFFIXES.get(target, (".cpp", ".cu"))
