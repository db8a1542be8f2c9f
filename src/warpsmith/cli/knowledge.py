"""Commands that tell what is known: `knowledge` searches the written pages, `lessons` lists what runs have learnt."""

from __future__ import annotations

from typing import Annotated

import typer

from ..errors import UsageError
from . import options as o
from . import printing
from .results import existing

TARGETS = ("cpu", "cuda")
AnyTargetOption = Annotated[str | None, typer.Option("--target", help="cpu or cuda; both when not given.")]


def register(app: typer.Typer) -> None:
    app.command()(knowledge)
    app.command()(lessons)


def knowledge(
    query: Annotated[
        list[str] | None,
        typer.Argument(help="Words, operations, a signature or an error message; without any: all titles."),
    ] = None,
    target: AnyTargetOption = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Pages to show at the most.")] = 3,
    json: o.JsonOption = None,
) -> None:
    """Search the knowledge base that models are told from."""
    from ..knowledge.index import Index

    index = Index()
    if not query:
        titles = [p for p in index.content if target is None or check_target(target) in p.targets]
        if json is not None:
            printing.write_json([page.model_dump(mode="json") for page in titles], json)
        if json != "-":
            printing.print_rows(
                ("page", "targets", "title"), [(p.name, " ".join(p.targets), p.title) for p in titles]
            )
        return
    passages = index.retrieve(" ".join(query), check_target(target), count)
    if json is not None:
        printing.write_json([passage.model_dump(mode="json") for passage in passages], json)
    if json != "-":
        for passage in passages:
            sources = "".join(f"\n{source}" for source in passage.sources)
            print(f"# {passage.title} ({passage.page})\n\n{passage.text}\n{sources}\n")
    if not passages:
        raise UsageError(f"nothing is written about {' '.join(query)}: `warpsmith knowledge` lists the pages")


def lessons(
    target: AnyTargetOption = None, archive: o.ArchiveOption = None, json: o.JsonOption = None
) -> None:
    """List what ended failures before, most helpful first: failure, what was changed, how often that helped."""
    lessons_kept = existing(archive).all_lessons(check_target(target) or None)
    if json is not None:
        printing.write_json([lesson.model_dump(mode="json") for lesson in lessons_kept], json)
    if json == "-":
        return
    for record in lessons_kept:
        lesson, imported = record.lesson, ", imported" if record.origin == "imported" else ""
        print(f"{lesson.target}  {lesson.signature}")
        print(f"  helped {lesson.helped}, failed {lesson.failed}{imported}; learnt {record.learnt_at[:10]}")
        print("".join(f"    {line}\n" for line in lesson.remedy.splitlines()))
    if not lessons_kept:
        print("no lessons yet: they are learnt when a model's repair works")


def check_target(name: str | None) -> str:
    """The target's name; empty for any. Raises UsageError for one that there is not."""
    if name is not None and name not in TARGETS:
        raise UsageError(f"no target {name}: there are {' and '.join(TARGETS)}")
    return name or ""
