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
    place = folder / NAME
    try:
        for name, text in read_skill_files().items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{place} cannot be written: {error.strerror or error}") from error
    return place


__all__ = ["NAME", "install", "read_skill_files"]
