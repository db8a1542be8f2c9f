"""`skills`: what coding agents are to read, put where they look for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

skills_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Teach a coding agent how to write kernels here."
)


def register(app: typer.Typer) -> None:
    app.add_typer(skills_app, name="skills")


@skills_app.callback()
def _skills() -> None: ...


@skills_app.command("install")
def install(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The agent's folder of skills.")] = Path(
        ".claude/skills"
    ),
) -> None:
    """Write the skill into DIR: a method, recipes by operator, when to stop. Installing again renews it."""
    from ..authoring.skills import install as write_skill

    print(write_skill(folder))
