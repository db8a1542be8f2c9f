"""The folder of a site: it is written beside its place, and takes the place when it is complete."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import UsageError

TOP_LEVEL = frozenset(
    [
        "index.html",
        "search.html",
        "map.html",
        "found.html",
        "suites.html",
        "methods.html",
        "json.html",
        "tasks",
        "kernels",
        "runs",
        "suites",
        "docs",
        "api",
        "data",
    ]
) | frozenset(["site.css", "site.js", "search.js", "map.js", "icon.svg"])
GENERATOR = "warpsmith site"


def expect_place(out: Path, force: bool) -> None:
    """Check that a site may be written there. Raises UsageError."""
    try:
        names = {p.name for p in out.iterdir()} if out.is_dir() else set()
        is_other = out.exists() and not out.is_dir()
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from error
    if is_other:
        raise UsageError(f"{out} is a file: name a folder")
    if names and not (names <= TOP_LEVEL and _is_site(out)):
        raise UsageError(f"{out} holds other files than a site: name another folder, or an empty one")
    if names and not force:
        raise UsageError(f"{out} holds a site already: name another folder, or write it anew with --force")


@contextmanager
def replace_folder(out: Path, force: bool) -> Iterator[Path]:
    """Give a folder to write into, and put it in the place of `out` at the end. Whatever is raised, the site of before stays."""
    expect_place(out, force)
    target = out.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from error
    try:
        site = work / "site"
        site.mkdir(mode=0o755)
        site.chmod(0o755)  # whatever the process masks: whoever serves it may read it
        yield site
        expect_place(out, force)
        _swap(site, target, work / "before")
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _swap(site: Path, target: Path, before: Path) -> None:
    if not target.exists():
        site.rename(target)
        return
    try:
        target.rename(before)
        site.rename(target)
    except BaseException:
        if before.exists() and not target.exists():
            before.rename(target)
        raise


def _is_site(folder: Path) -> bool:
    """Tell by its index that a folder was written by this program."""
    try:
        index = json.loads((folder / "api" / "index.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(index, dict) and str(index.get("generator", "")).startswith(GENERATOR)
