"""The skill for coding agents: a short method and recipes by operator, as files that an agent reads.

In: a folder of skills. Out: the skill in it, renewed. What its user put beside the skill's own files stays.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from ..errors import UsageError

NAME = "warpsmith-kernels"


def read_skill_files() -> dict[str, str]:
    """Relative path → text of each file of the skill."""
    root = resources.files(__package__) / "skill_files"
    recipes = {f"recipes/{f.name}": f for f in (root / "recipes").iterdir() if f.name.endswith(".md")}
    files = {"SKILL.md": root / "SKILL.md", **recipes}
    return {name: files[name].read_text(encoding="utf-8") for name in sorted(files)}


def install(folder: Path) -> Path:
    """Write the skill into a folder of skills; return where it lies. Raises UsageError, one line, where that cannot be written."""
    skill_folder = folder / NAME
    try:
        for name, text in read_skill_files().items():
            (skill_folder / name).parent.mkdir(parents=True, exist_ok=True)
            (skill_folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{skill_folder} cannot be written: {error.strerror or error}") from error
    return skill_folder


__all__ = ["NAME", "install", "read_skill_files"]
