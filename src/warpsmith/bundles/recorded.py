"""A folder of recorded results into an archive: exports as JSON lines, and bundles with their results, as folders or packed.

In: files and folders as they were committed. Out: the archive, filled, and the JSON-lines files that are none of these: rows of campaigns,
which whoever shows them reads. What another machine judged is imported, as an import of each by itself would be.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..archive import Archive, import_jsonl
from ..errors import ArchiveError, UsageError
from .container import MAX_TOTAL_BYTES
from .importing import import_results
from .manifest import BundleError

PACKED = (".tar.gz", ".tgz", ".tar")
RESULTS = "results.jsonl"  # beside a bundle


@dataclass
class Recorded:
    """What a folder held."""

    exports: int = 0
    bundles: int = 0
    rows: dict[str, list[dict[str, Any]]] = field(
        default_factory=dict
    )  # name of a file below the folder → its lines
    problems: list[str] = field(default_factory=list)  # what could not be read, a line each


def import_recorded(archive: Archive, paths: Iterable[Path], tell: Callable[[str], None]) -> Recorded:
    """Import everything below the paths. Raises UsageError for one that is not there; what is damaged is named and left out."""
    recorded = Recorded()
    for root in paths:
        if not root.exists():
            raise UsageError(f"{root} is not there: give a folder or a file of recorded results")
        for path in _find_files(root):
            name = path.relative_to(root).as_posix() if root.is_dir() else path.name
            tell(f"reading {name}")
            try:
                _import_file(archive, path, name, recorded)
            except (ArchiveError, BundleError, OSError, EOFError, zlib.error, tarfile.TarError) as error:
                recorded.problems.append(
                    f"{name} is left out: {str(error).splitlines()[0] if str(error) else error}"
                )
    return recorded


def _find_files(root: Path) -> Iterator[Path]:
    """Yield packed bundles, results beside a bundle, and files of JSON lines, in order."""
    files = sorted(root.rglob("*")) if root.is_dir() else [root]
    for path in files:
        if (
            path.is_file()
            and (path.suffix == ".jsonl" or path.name.endswith(PACKED))
            and "bundle" not in path.parent.parts
        ):
            yield path


def _import_file(archive: Archive, path: Path, name: str, recorded: Recorded) -> None:
    if path.name.endswith(PACKED):
        recorded.bundles += _import_packed(archive, path)
        return
    if path.name == RESULTS and (path.parent / "bundle").is_dir():
        import_results(archive, path.parent)
        recorded.bundles += 1
        return
    rows = _read_rows(path)
    if rows and rows[0].get("kind") == "header":
        import_jsonl(archive, path)
        recorded.exports += 1
    elif rows:
        recorded.rows[name.removesuffix(".jsonl")] = rows


def _import_packed(archive: Archive, path: Path) -> int:
    """Import each folder with results that a packed file holds; return how many."""
    with tempfile.TemporaryDirectory(prefix="warpsmith-recorded-") as name:
        with tarfile.open(path) as packed:
            if sum(m.size for m in packed.getmembers()) > MAX_TOTAL_BYTES:
                raise BundleError(f"it unpacks to more than {MAX_TOTAL_BYTES >> 20} MiB")
            packed.extractall(name, filter="data")
        folders = [p.parent for p in sorted(Path(name).rglob(RESULTS)) if (p.parent / "bundle").is_dir()]
        for folder in folders:
            import_results(archive, folder)
    return len(folders)


def _read_rows(path: Path) -> list[dict[str, Any]]:
    """Read lines of JSON; nothing where one is no object."""
    rows = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            return []
        if not isinstance(row, dict):
            return []
        rows.append(row)
        if row.get("kind") == "header":
            break  # an export: the import reads it
    return rows
